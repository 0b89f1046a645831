_WORD, _LONG = 2**32 - 1, 2**128 - 1
_LCG = 0x2360ED051FC65DA44385DF649FCCF645


def seed_behind(state):
    """The four words that NumPy's PCG64 was seeded with, of its state before the first draw."""
    inner = state["state"]
    first = (inner["state"] - inner["inc"]) * pow(_LCG, -1, 2**128) - inner["inc"]
    longs = [first & _LONG, inner["inc"] >> 1]
    words = [long >> shift & _WORD for long in longs for shift in (64, 96, 0, 32)]
    pool, constant = [], 0x8B51F9DD
    for word in words[:4]:
        next_constant = constant * 0x58F38DED & _WORD
        word = _unshifted(word) * pow(next_constant, -1, 2**32) & _WORD
        pool.append(word ^ constant)
        constant = next_constant
    constants = [0x43B0D7E5]
    for _ in range(16):
        constants.append(constants[-1] * 0x931E8875 & _WORD)
    pairs = [(source, target) for source in range(4) for target in range(4) if source != target]
    for step, (source, target) in reversed(list(enumerate(pairs, 4))):
        mixed = _hashed(pool[source], constants[step], constants[step + 1])
        before = _unshifted(pool[target]) + 0x4973F715 * mixed
        pool[target] = before * pow(0xCA01F9DD, -1, 2**32) & _WORD
    words = []
    for step, word in enumerate(pool):
        word = _unshifted(word) * pow(constants[step + 1], -1, 2**32) & _WORD
        words.append(word ^ constants[step])
    return words


def _hashed(word, constant, next_constant):
    word = (word ^ constant) * next_constant & _WORD
    return word ^ word >> 16


def _unshifted(word):
    return word ^ word >> 16
