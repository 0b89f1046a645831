#include "analytic/fast_exp.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace pmoss::analytic {
namespace {

TEST(FastExp, AgreesWithTheLibrary) {
  for (double x = 0.0; x > -690.0; x -= 0.0137) {
    EXPECT_NEAR(exp_of_negative(x) / std::exp(x), 1.0, 1e-11) << x;
  }
}

TEST(FastExp, VanishesFarOut) {
  EXPECT_LT(exp_of_negative(-1e4), 1e-299);
  EXPECT_EQ(exp_of_negative(0.0), 1.0);
}

}  // namespace
}  // namespace pmoss::analytic
