"""Methods of the package's dataclasses, so that Python keeps them compiled: `texts` says of which texts.

Made by `python -m tests.prepared`.
"""

def _make_e1509b98():
 def __hash__(self): return hash(())
def _make_f048dc96():
 def __hash__(self): return hash((self._0,))
def _make_eb0b9227():
 def __hash__(self): return hash((self._0,self._1,))
def _make_3c3feebb():
 def __hash__(self): return hash((self._0,self._1,self._2,))
def _make_f6863a18():
 def __hash__(self): return hash((self._0,self._1,self._2,self._3,))
def _make_a18893f6():
 def __hash__(self): return hash((self._0,self._1,self._2,self._3,self._4,))
def _make_68b86903():
 def __hash__(self): return hash((self._0,self._1,self._2,self._3,self._4,self._5,))
def _make_b8e2e16d():
 def __hash__(self): return hash((self._0,self._1,self._2,self._3,self._4,self._5,self._6,))
def _make_dffa8a09():
 def __hash__(self): return hash((self._0,self._1,self._2,self._3,self._4,self._5,self._6,self._7,))
def _make_442d802d():
 def __hash__(self): return hash((self._0,self._1,self._2,self._3,self._4,self._5,self._6,self._7,self._8,))
def _make_09eca0e9():
 def __hash__(self): return hash((self._0,self._1,self._2,self._3,self._4,self._5,self._6,self._7,self._8,self._9,))
def _make_eecd72cd():
 def __hash__(self): return hash((self._0,self._1,self._2,self._3,self._4,self._5,self._6,self._7,self._8,self._9,self._10,))
def _make_2a03e0a1():
 def __hash__(self): return hash((self._0,self._1,self._2,self._3,self._4,self._5,self._6,self._7,self._8,self._9,self._10,self._11,))
def _make_ac0ae339():
 def __hash__(self): return hash((self._0,self._1,self._2,self._3,self._4,self._5,self._6,self._7,self._8,self._9,self._10,self._11,self._12,))
def _make_69f3c7ba():
 def __hash__(self): return hash((self._0,self._1,self._2,self._3,self._4,self._5,self._6,self._7,self._8,self._9,self._10,self._11,self._12,self._13,self._14,))
def _make_1bac94c4():
 def __hash__(self): return hash((self._0,self._1,self._2,self._3,self._4,self._5,self._6,self._7,self._8,self._9,self._10,self._11,self._12,self._13,self._14,self._15,self._16,))
def _make_24c14047():
 def __hash__(self): return hash((self._0,self._1,self._2,self._3,self._4,self._5,self._6,self._7,self._8,self._9,self._10,self._11,self._12,self._13,self._14,self._15,self._16,self._17,))
def _make_f3ce2fcf(_set, _FACTORY):
 def __init__(self): pass
def _make_5d053dfc(_set, _FACTORY):
 def __init__(self, _0): _set(self, '_0', _0)
def _make_0abf2458(_set, _FACTORY):
 def __init__(self, _0, _1): _set(self, '_0', _0); _set(self, '_1', _1)
def _make_e38dee47(_set, _FACTORY):
 def __init__(self, _0, _1): self._0 = _0; self._1 = _1
def _make_155835a0(_set, _FACTORY):
 def __init__(self, _0, _1, _2): _set(self, '_0', _0); _set(self, '_1', _1); _set(self, '_2', _2)
def _make_1b88d972(_set, _FACTORY):
 def __init__(self, _0, _1, _2): _set(self, '_0', _0); _set(self, '_1', _1); _set(self, '_2', _2); self.__post_init__()
def _make_6820bf2c(_set, _FACTORY):
 def __init__(self, _0, _1, _2): self._0 = _0; self._1 = _1; self._2 = _2
def _make_4d64f172(_set, _FACTORY):
 def __init__(self, _0, _1, _2, _3): _set(self, '_0', _0); _set(self, '_1', _1); _set(self, '_2', _2); _set(self, '_3', _3)
def _make_b3c0e030(_set, _FACTORY):
 def __init__(self, _0, _1, _2, _3): _set(self, '_0', _0); _set(self, '_1', _1); _set(self, '_2', _2); _set(self, '_3', _3); self.__post_init__()
def _make_429df3ae(_set, _FACTORY):
 def __init__(self, _0, _1, _2, _3): self._0 = _0; self._1 = _1; self._2 = _2; self._3 = _3
def _make_82d70c1c(_set, _FACTORY):
 def __init__(self, _0, _1, _2, _3, _4): _set(self, '_0', _0); _set(self, '_1', _1); _set(self, '_2', _2); _set(self, '_3', _3); _set(self, '_4', _4)
def _make_22e810ff(_set, _FACTORY):
 def __init__(self, _0, _1, _2, _3, _4): _set(self, '_0', _0); _set(self, '_1', _1); _set(self, '_2', _2); _set(self, '_3', _3); _set(self, '_4', _4); self.__post_init__()
def _make_61d4ffd1(_set, _FACTORY):
 def __init__(self, _0, _1, _2, _3, _4): self._0 = _0; self._1 = _1; self._2 = _2; self._3 = _3; self._4 = _4
def _make_9e9ad528(_set, _FACTORY):
 def __init__(self, _0, _1, _2, _3, _4, _5): _set(self, '_0', _0); _set(self, '_1', _1); _set(self, '_2', _2); _set(self, '_3', _3); _set(self, '_4', _4); _set(self, '_5', _5)
def _make_d8470680(_set, _FACTORY):
 def __init__(self, _0, _1, _2, _3, _4, _5): self._0 = _0; self._1 = _1; self._2 = _2; self._3 = _3; self._4 = _4; self._5 = _5
def _make_841ba997(_set, _FACTORY):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6): _set(self, '_0', _0); _set(self, '_1', _1); _set(self, '_2', _2); _set(self, '_3', _3); _set(self, '_4', _4); _set(self, '_5', _5); _set(self, '_6', _6)
def _make_d58533ec(_set, _FACTORY):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6): _set(self, '_0', _0); _set(self, '_1', _1); _set(self, '_2', _2); _set(self, '_3', _3); _set(self, '_4', _4); _set(self, '_5', _5); _set(self, '_6', _6); self.__post_init__()
def _make_7615aa2f(_set, _FACTORY):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6): self._0 = _0; self._1 = _1; self._2 = _2; self._3 = _3; self._4 = _4; self._5 = _5; self._6 = _6
def _make_b77641a0(_set, _FACTORY):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7): self._0 = _0; self._1 = _1; self._2 = _2; self._3 = _3; self._4 = _4; self._5 = _5; self._6 = _6; self._7 = _7
def _make_540b0d94(_set, _FACTORY):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7, _11): self._0 = _0; self._1 = _1; self._2 = _2; self._3 = _3; self._4 = _4; self._5 = _5; self._6 = _6; self._7 = _7; self._11 = _11; self.__post_init__()
def _make_2106c970(_set, _FACTORY):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7, _8): _set(self, '_0', _0); _set(self, '_1', _1); _set(self, '_2', _2); _set(self, '_3', _3); _set(self, '_4', _4); _set(self, '_5', _5); _set(self, '_6', _6); _set(self, '_7', _7); _set(self, '_8', _8)
def _make_53ccd174(_set, _FACTORY):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7, _8): self._0 = _0; self._1 = _1; self._2 = _2; self._3 = _3; self._4 = _4; self._5 = _5; self._6 = _6; self._7 = _7; self._8 = _8
def _make_3a760b53(_set, _FACTORY):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9): _set(self, '_0', _0); _set(self, '_1', _1); _set(self, '_2', _2); _set(self, '_3', _3); _set(self, '_4', _4); _set(self, '_5', _5); _set(self, '_6', _6); _set(self, '_7', _7); _set(self, '_8', _8); _set(self, '_9', _9)
def _make_0fe1db45(_set, _FACTORY):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9): self._0 = _0; self._1 = _1; self._2 = _2; self._3 = _3; self._4 = _4; self._5 = _5; self._6 = _6; self._7 = _7; self._8 = _8; self._9 = _9
def _make_5e4ee986(_set, _FACTORY):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10): self._0 = _0; self._1 = _1; self._2 = _2; self._3 = _3; self._4 = _4; self._5 = _5; self._6 = _6; self._7 = _7; self._8 = _8; self._9 = _9; self._10 = _10
def _make_c171845a(_set, _FACTORY):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12): self._0 = _0; self._1 = _1; self._2 = _2; self._3 = _3; self._4 = _4; self._5 = _5; self._6 = _6; self._7 = _7; self._8 = _8; self._9 = _9; self._10 = _10; self._11 = _11; self._12 = _12
def _make_6daf7fa3(_set, _FACTORY):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14): _set(self, '_0', _0); _set(self, '_1', _1); _set(self, '_2', _2); _set(self, '_3', _3); _set(self, '_4', _4); _set(self, '_5', _5); _set(self, '_6', _6); _set(self, '_7', _7); _set(self, '_8', _8); _set(self, '_9', _9); _set(self, '_10', _10); _set(self, '_11', _11); _set(self, '_12', _12); _set(self, '_13', _13); _set(self, '_14', _14)
def _make_a3fa16b2(_set, _FACTORY):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14): self._0 = _0; self._1 = _1; self._2 = _2; self._3 = _3; self._4 = _4; self._5 = _5; self._6 = _6; self._7 = _7; self._8 = _8; self._9 = _9; self._10 = _10; self._11 = _11; self._12 = _12; self._13 = _13; self._14 = _14
def _make_fa831662(_set, _FACTORY):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16, _17, _18): _set(self, '_0', _0); _set(self, '_1', _1); _set(self, '_2', _2); _set(self, '_3', _3); _set(self, '_4', _4); _set(self, '_5', _5); _set(self, '_6', _6); _set(self, '_7', _7); _set(self, '_8', _8); _set(self, '_9', _9); _set(self, '_10', _10); _set(self, '_11', _11); _set(self, '_12', _12); _set(self, '_13', _13); _set(self, '_14', _14); _set(self, '_15', _15); _set(self, '_16', _16); _set(self, '_17', _17); _set(self, '_18', _18)
def _make_37dd01d3(_set, _FACTORY):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16, _17, _18, _19, _20, _21, _22, _23, _24, _25, _26): _set(self, '_0', _0); _set(self, '_1', _1); _set(self, '_2', _2); _set(self, '_3', _3); _set(self, '_4', _4); _set(self, '_5', _5); _set(self, '_6', _6); _set(self, '_7', _7); _set(self, '_8', _8); _set(self, '_9', _9); _set(self, '_10', _10); _set(self, '_11', _11); _set(self, '_12', _12); _set(self, '_13', _13); _set(self, '_14', _14); _set(self, '_15', _15); _set(self, '_16', _16); _set(self, '_17', _17); _set(self, '_18', _18); _set(self, '_19', _19); _set(self, '_20', _20); _set(self, '_21', _21); _set(self, '_22', _22); _set(self, '_23', _23); _set(self, '_24', _24); _set(self, '_25', _25); _set(self, '_26', _26)
def _make_7e121c33(_set, _FACTORY, default_4):
 def __init__(self, _0, _1, _2, *, _3): self._0 = _0; self._1 = _1; self._2 = _2; self._3 = _3; self._4 = default_4
def _make_3aebcd1e(_set, _FACTORY, default_4):
 def __init__(self, _0, _1, _2, _5, *, _3): self._0 = _0; self._1 = _1; self._2 = _2; self._3 = _3; self._4 = default_4; self._5 = _5
def _make_4c8d5212(_set, _FACTORY, default_4):
 def __init__(self, _0, _1, _2, _5, _6, *, _3): self._0 = _0; self._1 = _1; self._2 = _2; self._3 = _3; self._4 = default_4; self._5 = _5; self._6 = _6
def _make_d7467ef7(_set, _FACTORY, default_4):
 def __init__(self, _0, _1, _2, _5, _6, _7, *, _3): self._0 = _0; self._1 = _1; self._2 = _2; self._3 = _3; self._4 = default_4; self._5 = _5; self._6 = _6; self._7 = _7
def _make_a6c3fc03(_set, _FACTORY, default_4):
 def __init__(self, _0, _1, _2, _5, _6, _7, _8, *, _3): self._0 = _0; self._1 = _1; self._2 = _2; self._3 = _3; self._4 = default_4; self._5 = _5; self._6 = _6; self._7 = _7; self._8 = _8
def _make_57dae48d(_set, _FACTORY, default_4):
 def __init__(self, _0, _1, _2, _5, _6, _7, _8, _9, *, _3): self._0 = _0; self._1 = _1; self._2 = _2; self._3 = _3; self._4 = default_4; self._5 = _5; self._6 = _6; self._7 = _7; self._8 = _8; self._9 = _9
def _make_eb320728(_set, _FACTORY, default_4):
 def __init__(self, _0, _1, _2, _5, _6, _7, _8, _9, *, _3): self._0 = _0; self._1 = _1; self._2 = _2; self._3 = _3; self._4 = default_4; self._5 = _5; self._6 = _6; self._7 = _7; self._8 = _8; self._9 = _9; self.__post_init__()
def _make_6d33d48a(_set, _FACTORY, default_4):
 def __init__(self, _0, _1, _2, _5, _6, _7, _8, _9, _10, *, _3): self._0 = _0; self._1 = _1; self._2 = _2; self._3 = _3; self._4 = default_4; self._5 = _5; self._6 = _6; self._7 = _7; self._8 = _8; self._9 = _9; self._10 = _10
def _make_69607067(_set, _FACTORY, default_4):
 def __init__(self, _0, _1, _2, _5, _6, _7, _8, _9, _10, _11, *, _3): self._0 = _0; self._1 = _1; self._2 = _2; self._3 = _3; self._4 = default_4; self._5 = _5; self._6 = _6; self._7 = _7; self._8 = _8; self._9 = _9; self._10 = _10; self._11 = _11
def _make_accf4502(_set, _FACTORY, default_4):
 def __init__(self, _0, _1, _2, _5, _6, _7, _8, _9, _10, _11, _12, _13, *, _3): self._0 = _0; self._1 = _1; self._2 = _2; self._3 = _3; self._4 = default_4; self._5 = _5; self._6 = _6; self._7 = _7; self._8 = _8; self._9 = _9; self._10 = _10; self._11 = _11; self._12 = _12; self._13 = _13
def _make_385cb7fa(_set, _FACTORY, make_0):
 def __init__(self, _0): self._0 = make_0() if _0 is _FACTORY else _0
def _make_aaaf41c9(_set, _FACTORY, make_0):
 def __init__(self, _0, _1): self._0 = make_0() if _0 is _FACTORY else _0; self._1 = _1
def _make_92d7d054(_set, _FACTORY, make_0):
 def __init__(self, _0, _1, _2, _3): self._0 = make_0() if _0 is _FACTORY else _0; self._1 = _1; self._2 = _2; self._3 = _3
def _make_fbb5de74(_set, _FACTORY, make_0, make_1, make_2):
 def __init__(self, _0, _1, _2): _set(self, '_0', make_0() if _0 is _FACTORY else _0); _set(self, '_1', make_1() if _1 is _FACTORY else _1); _set(self, '_2', make_2() if _2 is _FACTORY else _2)
def _make_75c9726d(_set, _FACTORY, make_0, make_1, make_2):
 def __init__(self, _0, _1, _2): self._0 = make_0() if _0 is _FACTORY else _0; self._1 = make_1() if _1 is _FACTORY else _1; self._2 = make_2() if _2 is _FACTORY else _2
def _make_93e4d1ed(_set, _FACTORY, make_0, make_1, make_2, make_3):
 def __init__(self, _0, _1, _2, _3): self._0 = make_0() if _0 is _FACTORY else _0; self._1 = make_1() if _1 is _FACTORY else _1; self._2 = make_2() if _2 is _FACTORY else _2; self._3 = make_3() if _3 is _FACTORY else _3
def _make_bfe10e16(_set, _FACTORY, make_0, make_1, make_2, make_3):
 def __init__(self, _0, _1, _2, _3, _4): self._0 = make_0() if _0 is _FACTORY else _0; self._1 = make_1() if _1 is _FACTORY else _1; self._2 = make_2() if _2 is _FACTORY else _2; self._3 = make_3() if _3 is _FACTORY else _3; self._4 = _4
def _make_cfcaa192(_set, _FACTORY, make_0, make_1, make_2, make_3):
 def __init__(self, _0, _1, _2, _3, _4, _5): self._0 = make_0() if _0 is _FACTORY else _0; self._1 = make_1() if _1 is _FACTORY else _1; self._2 = make_2() if _2 is _FACTORY else _2; self._3 = make_3() if _3 is _FACTORY else _3; self._4 = _4; self._5 = _5
def _make_7f88db09(_set, _FACTORY, make_0, make_1, make_2, make_3, make_4, make_5):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7, _8): self._0 = make_0() if _0 is _FACTORY else _0; self._1 = make_1() if _1 is _FACTORY else _1; self._2 = make_2() if _2 is _FACTORY else _2; self._3 = make_3() if _3 is _FACTORY else _3; self._4 = make_4() if _4 is _FACTORY else _4; self._5 = make_5() if _5 is _FACTORY else _5; self._6 = _6; self._7 = _7; self._8 = _8
def _make_85c06124(_set, _FACTORY, make_0, make_2, make_4):
 def __init__(self, _0, _1, _2, _3, _4): self._0 = make_0() if _0 is _FACTORY else _0; self._1 = _1; self._2 = make_2() if _2 is _FACTORY else _2; self._3 = _3; self._4 = make_4() if _4 is _FACTORY else _4
def _make_04bcb4ac(_set, _FACTORY, make_0, set_0):
 def __init__(self, _0): set_0(self, make_0() if _0 is _FACTORY else _0)
def _make_817cda5a(_set, _FACTORY, make_0, set_0, make_1, set_1):
 def __init__(self, _0, _1): set_0(self, make_0() if _0 is _FACTORY else _0); set_1(self, make_1() if _1 is _FACTORY else _1)
def _make_5de3d3cd(_set, _FACTORY, make_0, set_0, make_1, set_1, set_2, set_3, set_4, set_5):
 def __init__(self, _0, _1, _2, _3, _4, _5): set_0(self, make_0() if _0 is _FACTORY else _0); set_1(self, make_1() if _1 is _FACTORY else _1); set_2(self, _2); set_3(self, _3); set_4(self, _4); set_5(self, _5)
def _make_cfbe810d(_set, _FACTORY, make_0, set_0, set_1, set_2):
 def __init__(self, _0, _1, _2): set_0(self, make_0() if _0 is _FACTORY else _0); set_1(self, _1); set_2(self, _2)
def _make_355b3c4d(_set, _FACTORY, make_1):
 def __init__(self, _0, _1): self._0 = _0; self._1 = make_1() if _1 is _FACTORY else _1
def _make_89f9fdac(_set, _FACTORY, make_1, make_2):
 def __init__(self, _0, _1, _2): self._0 = _0; self._1 = make_1() if _1 is _FACTORY else _1; self._2 = make_2() if _2 is _FACTORY else _2
def _make_f2d4e8a4(_set, _FACTORY, make_1, make_2):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6): self._0 = _0; self._1 = make_1() if _1 is _FACTORY else _1; self._2 = make_2() if _2 is _FACTORY else _2; self._3 = _3; self._4 = _4; self._5 = _5; self._6 = _6
def _make_feb84bf6(_set, _FACTORY, make_1, make_2, make_3):
 def __init__(self, _0, _1, _2, _3): self._0 = _0; self._1 = make_1() if _1 is _FACTORY else _1; self._2 = make_2() if _2 is _FACTORY else _2; self._3 = make_3() if _3 is _FACTORY else _3
def _make_6ba8dc9c(_set, _FACTORY, make_1, make_2, make_3, make_4):
 def __init__(self, _0, _1, _2, _3, _4): self._0 = _0; self._1 = make_1() if _1 is _FACTORY else _1; self._2 = make_2() if _2 is _FACTORY else _2; self._3 = make_3() if _3 is _FACTORY else _3; self._4 = make_4() if _4 is _FACTORY else _4
def _make_36197f4c(_set, _FACTORY, make_1, make_2, make_3, make_4):
 def __init__(self, _0, _1, _2, _3, _4, _5): self._0 = _0; self._1 = make_1() if _1 is _FACTORY else _1; self._2 = make_2() if _2 is _FACTORY else _2; self._3 = make_3() if _3 is _FACTORY else _3; self._4 = make_4() if _4 is _FACTORY else _4; self._5 = _5
def _make_3c6ae2b2(_set, _FACTORY, make_1, make_2, make_3, make_4):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7): self._0 = _0; self._1 = make_1() if _1 is _FACTORY else _1; self._2 = make_2() if _2 is _FACTORY else _2; self._3 = make_3() if _3 is _FACTORY else _3; self._4 = make_4() if _4 is _FACTORY else _4; self._5 = _5; self._6 = _6; self._7 = _7
def _make_2a4e20b4(_set, _FACTORY, make_1, make_2, make_3, make_4, make_5, make_6):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6): self._0 = _0; self._1 = make_1() if _1 is _FACTORY else _1; self._2 = make_2() if _2 is _FACTORY else _2; self._3 = make_3() if _3 is _FACTORY else _3; self._4 = make_4() if _4 is _FACTORY else _4; self._5 = make_5() if _5 is _FACTORY else _5; self._6 = make_6() if _6 is _FACTORY else _6
def _make_606b1455(_set, _FACTORY, make_1, make_2, make_3, make_4, make_5, make_7, make_8, make_9):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9): self._0 = _0; self._1 = make_1() if _1 is _FACTORY else _1; self._2 = make_2() if _2 is _FACTORY else _2; self._3 = make_3() if _3 is _FACTORY else _3; self._4 = make_4() if _4 is _FACTORY else _4; self._5 = make_5() if _5 is _FACTORY else _5; self._6 = _6; self._7 = make_7() if _7 is _FACTORY else _7; self._8 = make_8() if _8 is _FACTORY else _8; self._9 = make_9() if _9 is _FACTORY else _9
def _make_9e2d198a(_set, _FACTORY, make_1, make_2, make_4, make_5, make_9):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9): self._0 = _0; self._1 = make_1() if _1 is _FACTORY else _1; self._2 = make_2() if _2 is _FACTORY else _2; self._3 = _3; self._4 = make_4() if _4 is _FACTORY else _4; self._5 = make_5() if _5 is _FACTORY else _5; self._6 = _6; self._7 = _7; self._8 = _8; self._9 = make_9() if _9 is _FACTORY else _9
def _make_85d26922(_set, _FACTORY, make_1, make_7):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7, _8): self._0 = _0; self._1 = make_1() if _1 is _FACTORY else _1; self._2 = _2; self._3 = _3; self._4 = _4; self._5 = _5; self._6 = _6; self._7 = make_7() if _7 is _FACTORY else _7; self._8 = _8
def _make_0f33c713(_set, _FACTORY, make_11):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11): _set(self, '_0', _0); _set(self, '_1', _1); _set(self, '_2', _2); _set(self, '_3', _3); _set(self, '_4', _4); _set(self, '_5', _5); _set(self, '_6', _6); _set(self, '_7', _7); _set(self, '_8', _8); _set(self, '_9', _9); _set(self, '_10', _10); _set(self, '_11', make_11() if _11 is _FACTORY else _11); self.__post_init__()
def _make_c32e0355(_set, _FACTORY, make_12, make_14, make_15):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16): self._0 = _0; self._1 = _1; self._2 = _2; self._3 = _3; self._4 = _4; self._5 = _5; self._6 = _6; self._7 = _7; self._8 = _8; self._9 = _9; self._10 = _10; self._11 = _11; self._12 = make_12() if _12 is _FACTORY else _12; self._13 = _13; self._14 = make_14() if _14 is _FACTORY else _14; self._15 = make_15() if _15 is _FACTORY else _15; self._16 = _16; self.__post_init__()
def _make_53c24004(_set, _FACTORY, make_13, make_14, make_15, make_16, make_18, make_20):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16, _17, _18, _19, _20): self._0 = _0; self._1 = _1; self._2 = _2; self._3 = _3; self._4 = _4; self._5 = _5; self._6 = _6; self._7 = _7; self._8 = _8; self._9 = _9; self._10 = _10; self._11 = _11; self._12 = _12; self._13 = make_13() if _13 is _FACTORY else _13; self._14 = make_14() if _14 is _FACTORY else _14; self._15 = make_15() if _15 is _FACTORY else _15; self._16 = make_16() if _16 is _FACTORY else _16; self._17 = _17; self._18 = make_18() if _18 is _FACTORY else _18; self._19 = _19; self._20 = make_20() if _20 is _FACTORY else _20
def _make_b722a141(_set, _FACTORY, make_16, make_17):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16, _17): self._0 = _0; self._1 = _1; self._2 = _2; self._3 = _3; self._4 = _4; self._5 = _5; self._6 = _6; self._7 = _7; self._8 = _8; self._9 = _9; self._10 = _10; self._11 = _11; self._12 = _12; self._13 = _13; self._14 = _14; self._15 = _15; self._16 = make_16() if _16 is _FACTORY else _16; self._17 = make_17() if _17 is _FACTORY else _17
def _make_ee62fe07(_set, _FACTORY, make_2):
 def __init__(self, _0, _1, _2): _set(self, '_0', _0); _set(self, '_1', _1); _set(self, '_2', make_2() if _2 is _FACTORY else _2)
def _make_0db955a5(_set, _FACTORY, make_2):
 def __init__(self, _0, _1, _2): self._0 = _0; self._1 = _1; self._2 = make_2() if _2 is _FACTORY else _2
def _make_4bbb20b6(_set, _FACTORY, make_2):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11): self._0 = _0; self._1 = _1; self._2 = make_2() if _2 is _FACTORY else _2; self._3 = _3; self._4 = _4; self._5 = _5; self._6 = _6; self._7 = _7; self._8 = _8; self._9 = _9; self._10 = _10; self._11 = _11
def _make_11e94e82(_set, _FACTORY, make_2, make_3, make_5, default_6):
 def __init__(self, _0, _1, _2, _3, _4, _5): self._0 = _0; self._1 = _1; self._2 = make_2() if _2 is _FACTORY else _2; self._3 = make_3() if _3 is _FACTORY else _3; self._4 = _4; self._5 = make_5() if _5 is _FACTORY else _5; self._6 = default_6
def _make_beafefbc(_set, _FACTORY, make_3):
 def __init__(self, _0, _1, _2, _3): self._0 = _0; self._1 = _1; self._2 = _2; self._3 = make_3() if _3 is _FACTORY else _3
def _make_2a227dfa(_set, _FACTORY, make_3, make_4):
 def __init__(self, _0, _1, _2, _3, _4): self._0 = _0; self._1 = _1; self._2 = _2; self._3 = make_3() if _3 is _FACTORY else _3; self._4 = make_4() if _4 is _FACTORY else _4
def _make_6756393e(_set, _FACTORY, make_4):
 def __init__(self, _0, _1, _2, _3, _4): _set(self, '_0', _0); _set(self, '_1', _1); _set(self, '_2', _2); _set(self, '_3', _3); _set(self, '_4', make_4() if _4 is _FACTORY else _4)
def _make_933cb52d(_set, _FACTORY, make_4):
 def __init__(self, _0, _1, _2, _3, _4): self._0 = _0; self._1 = _1; self._2 = _2; self._3 = _3; self._4 = make_4() if _4 is _FACTORY else _4
def _make_2b26a419(_set, _FACTORY, make_4):
 def __init__(self, _0, _1, _2, _3, _4, _5): _set(self, '_0', _0); _set(self, '_1', _1); _set(self, '_2', _2); _set(self, '_3', _3); _set(self, '_4', make_4() if _4 is _FACTORY else _4); _set(self, '_5', _5)
def _make_b3d05e18(_set, _FACTORY, make_4, make_5):
 def __init__(self, _0, _1, _2, _3, _4, _5): _set(self, '_0', _0); _set(self, '_1', _1); _set(self, '_2', _2); _set(self, '_3', _3); _set(self, '_4', make_4() if _4 is _FACTORY else _4); _set(self, '_5', make_5() if _5 is _FACTORY else _5)
def _make_5b97788f(_set, _FACTORY, make_4, make_5, make_6):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6): self._0 = _0; self._1 = _1; self._2 = _2; self._3 = _3; self._4 = make_4() if _4 is _FACTORY else _4; self._5 = make_5() if _5 is _FACTORY else _5; self._6 = make_6() if _6 is _FACTORY else _6
def _make_680e4b4e(_set, _FACTORY, make_5, make_6, make_12, make_13, make_14, make_15):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15): self._0 = _0; self._1 = _1; self._2 = _2; self._3 = _3; self._4 = _4; self._5 = make_5() if _5 is _FACTORY else _5; self._6 = make_6() if _6 is _FACTORY else _6; self._7 = _7; self._8 = _8; self._9 = _9; self._10 = _10; self._11 = _11; self._12 = make_12() if _12 is _FACTORY else _12; self._13 = make_13() if _13 is _FACTORY else _13; self._14 = make_14() if _14 is _FACTORY else _14; self._15 = make_15() if _15 is _FACTORY else _15; self.__post_init__()
def _make_1d823fed(_set, _FACTORY, make_5, make_6, make_7):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7): self._0 = _0; self._1 = _1; self._2 = _2; self._3 = _3; self._4 = _4; self._5 = make_5() if _5 is _FACTORY else _5; self._6 = make_6() if _6 is _FACTORY else _6; self._7 = make_7() if _7 is _FACTORY else _7
def _make_927d77d7(_set, _FACTORY, make_6):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6): self._0 = _0; self._1 = _1; self._2 = _2; self._3 = _3; self._4 = _4; self._5 = _5; self._6 = make_6() if _6 is _FACTORY else _6
def _make_e2b6644c(_set, _FACTORY, make_6):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7): _set(self, '_0', _0); _set(self, '_1', _1); _set(self, '_2', _2); _set(self, '_3', _3); _set(self, '_4', _4); _set(self, '_5', _5); _set(self, '_6', make_6() if _6 is _FACTORY else _6); _set(self, '_7', _7)
def _make_01cd538a(_set, _FACTORY, make_6, make_7):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7): self._0 = _0; self._1 = _1; self._2 = _2; self._3 = _3; self._4 = _4; self._5 = _5; self._6 = make_6() if _6 is _FACTORY else _6; self._7 = make_7() if _7 is _FACTORY else _7
def _make_95c53fc4(_set, _FACTORY, make_7):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7): _set(self, '_0', _0); _set(self, '_1', _1); _set(self, '_2', _2); _set(self, '_3', _3); _set(self, '_4', _4); _set(self, '_5', _5); _set(self, '_6', _6); _set(self, '_7', make_7() if _7 is _FACTORY else _7)
def _make_7a1edc9d(_set, _FACTORY, make_8):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10): self._0 = _0; self._1 = _1; self._2 = _2; self._3 = _3; self._4 = _4; self._5 = _5; self._6 = _6; self._7 = _7; self._8 = make_8() if _8 is _FACTORY else _8; self._9 = _9; self._10 = _10
def _make_6a7fe13d(_set, _FACTORY, make_8):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12): _set(self, '_0', _0); _set(self, '_1', _1); _set(self, '_2', _2); _set(self, '_3', _3); _set(self, '_4', _4); _set(self, '_5', _5); _set(self, '_6', _6); _set(self, '_7', _7); _set(self, '_8', make_8() if _8 is _FACTORY else _8); _set(self, '_9', _9); _set(self, '_10', _10); _set(self, '_11', _11); _set(self, '_12', _12)
def _make_ee50e3ac(_set, _FACTORY, make_9, make_10, make_11, make_12, make_13, make_14, make_15):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15): self._0 = _0; self._1 = _1; self._2 = _2; self._3 = _3; self._4 = _4; self._5 = _5; self._6 = _6; self._7 = _7; self._8 = _8; self._9 = make_9() if _9 is _FACTORY else _9; self._10 = make_10() if _10 is _FACTORY else _10; self._11 = make_11() if _11 is _FACTORY else _11; self._12 = make_12() if _12 is _FACTORY else _12; self._13 = make_13() if _13 is _FACTORY else _13; self._14 = make_14() if _14 is _FACTORY else _14; self._15 = make_15() if _15 is _FACTORY else _15
def _make_ee78c197(_set, _FACTORY, set_0):
 def __init__(self, *, _0): set_0(self, _0)
def _make_1362c5d1(_set, _FACTORY, set_0):
 def __init__(self, _0): set_0(self, _0)
def _make_184b0be1(_set, _FACTORY, set_0, make_1, set_1, make_2, set_2):
 def __init__(self, _0, _1, _2): set_0(self, _0); set_1(self, make_1() if _1 is _FACTORY else _1); set_2(self, make_2() if _2 is _FACTORY else _2)
def _make_39603ac1(_set, _FACTORY, set_0, make_1, set_1, set_2):
 def __init__(self, _0, _1, _2): set_0(self, _0); set_1(self, make_1() if _1 is _FACTORY else _1); set_2(self, _2)
def _make_7c9b8039(_set, _FACTORY, set_0, set_1):
 def __init__(self, _0, _1): set_0(self, _0); set_1(self, _1)
def _make_d1b3ee14(_set, _FACTORY, set_0, set_1):
 def __init__(self, _1, *, _0): set_0(self, _0); set_1(self, _1)
def _make_eec43d85(_set, _FACTORY, set_0, set_1, make_2, set_2):
 def __init__(self, _0, _1, _2): set_0(self, _0); set_1(self, _1); set_2(self, make_2() if _2 is _FACTORY else _2)
def _make_807ae545(_set, _FACTORY, set_0, set_1, make_2, set_2, make_3, set_3, make_4, set_4, make_5, set_5, set_6, set_7, make_8, set_8, make_9, set_9, set_10, set_11, set_12):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12): set_0(self, _0); set_1(self, _1); set_2(self, make_2() if _2 is _FACTORY else _2); set_3(self, make_3() if _3 is _FACTORY else _3); set_4(self, make_4() if _4 is _FACTORY else _4); set_5(self, make_5() if _5 is _FACTORY else _5); set_6(self, _6); set_7(self, _7); set_8(self, make_8() if _8 is _FACTORY else _8); set_9(self, make_9() if _9 is _FACTORY else _9); set_10(self, _10); set_11(self, _11); set_12(self, _12); self.__post_init__()
def _make_67f625e1(_set, _FACTORY, set_0, set_1, set_2):
 def __init__(self, _0, _1, _2): set_0(self, _0); set_1(self, _1); set_2(self, _2)
def _make_e985701e(_set, _FACTORY, set_0, set_1, set_2):
 def __init__(self, _0, _1, _2): set_0(self, _0); set_1(self, _1); set_2(self, _2); self.__post_init__()
def _make_d04ae71e(_set, _FACTORY, set_0, set_1, set_2):
 def __init__(self, _1, _2, *, _0): set_0(self, _0); set_1(self, _1); set_2(self, _2)
def _make_7f8603aa(_set, _FACTORY, set_0, set_1, set_2, set_3):
 def __init__(self, _0, _1, _2, _3): set_0(self, _0); set_1(self, _1); set_2(self, _2); set_3(self, _3)
def _make_ca2ee3e9(_set, _FACTORY, set_0, set_1, set_2, set_3):
 def __init__(self, _1, _2, _3, *, _0): set_0(self, _0); set_1(self, _1); set_2(self, _2); set_3(self, _3)
def _make_8b762fcb(_set, _FACTORY, set_0, set_1, set_2, set_3, set_4):
 def __init__(self, _0, _1, _2, _3, _4): set_0(self, _0); set_1(self, _1); set_2(self, _2); set_3(self, _3); set_4(self, _4)
def _make_4d9a1771(_set, _FACTORY, set_0, set_1, set_2, set_3, set_4):
 def __init__(self, _0, _1, _2, _3, _4): set_0(self, _0); set_1(self, _1); set_2(self, _2); set_3(self, _3); set_4(self, _4); self.__post_init__()
def _make_f2886ec6(_set, _FACTORY, set_0, set_1, set_2, set_3, set_4):
 def __init__(self, _1, _2, _3, _4, *, _0): set_0(self, _0); set_1(self, _1); set_2(self, _2); set_3(self, _3); set_4(self, _4)
def _make_ba7f2530(_set, _FACTORY, set_0, set_1, set_2, set_3, set_4, set_5):
 def __init__(self, _0, _1, _2, _3, _4, _5): set_0(self, _0); set_1(self, _1); set_2(self, _2); set_3(self, _3); set_4(self, _4); set_5(self, _5)
def _make_b2c40e02(_set, _FACTORY, set_0, set_1, set_2, set_3, set_4, set_5):
 def __init__(self, _0, _1, _2, _3, _4, _5): set_0(self, _0); set_1(self, _1); set_2(self, _2); set_3(self, _3); set_4(self, _4); set_5(self, _5); self.__post_init__()
def _make_26f6cdca(_set, _FACTORY, set_0, set_1, set_2, set_3, set_4, set_5):
 def __init__(self, _1, _2, _3, _4, _5, *, _0): set_0(self, _0); set_1(self, _1); set_2(self, _2); set_3(self, _3); set_4(self, _4); set_5(self, _5)
def _make_6e21ec66(_set, _FACTORY, set_0, set_1, set_2, set_3, set_4, set_5, make_6, set_6, set_7):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7): set_0(self, _0); set_1(self, _1); set_2(self, _2); set_3(self, _3); set_4(self, _4); set_5(self, _5); set_6(self, make_6() if _6 is _FACTORY else _6); set_7(self, _7)
def _make_7c3fc61d(_set, _FACTORY, set_0, set_1, set_2, set_3, set_4, set_5, set_6):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6): set_0(self, _0); set_1(self, _1); set_2(self, _2); set_3(self, _3); set_4(self, _4); set_5(self, _5); set_6(self, _6)
def _make_9d28a515(_set, _FACTORY, set_0, set_1, set_2, set_3, set_4, set_5, set_6):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6): set_0(self, _0); set_1(self, _1); set_2(self, _2); set_3(self, _3); set_4(self, _4); set_5(self, _5); set_6(self, _6); self.__post_init__()
def _make_f6fe2291(_set, _FACTORY, set_0, set_1, set_2, set_3, set_4, set_5, set_6, make_7, set_7, set_8, set_9, set_10, set_11, set_12, set_13, set_14, set_15, set_16):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16): set_0(self, _0); set_1(self, _1); set_2(self, _2); set_3(self, _3); set_4(self, _4); set_5(self, _5); set_6(self, _6); set_7(self, make_7() if _7 is _FACTORY else _7); set_8(self, _8); set_9(self, _9); set_10(self, _10); set_11(self, _11); set_12(self, _12); set_13(self, _13); set_14(self, _14); set_15(self, _15); set_16(self, _16)
def _make_08ab5e05(_set, _FACTORY, set_0, set_1, set_2, set_3, set_4, set_5, set_6, set_7):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7): set_0(self, _0); set_1(self, _1); set_2(self, _2); set_3(self, _3); set_4(self, _4); set_5(self, _5); set_6(self, _6); set_7(self, _7)
def _make_82922ecc(_set, _FACTORY, set_0, set_1, set_2, set_3, set_4, set_5, set_6, set_7):
 def __init__(self, _1, _2, _3, _4, _5, _6, _7, *, _0): set_0(self, _0); set_1(self, _1); set_2(self, _2); set_3(self, _3); set_4(self, _4); set_5(self, _5); set_6(self, _6); set_7(self, _7)
def _make_3d1850df(_set, _FACTORY, set_0, set_1, set_2, set_3, set_4, set_5, set_6, set_7, set_8):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7, _8): set_0(self, _0); set_1(self, _1); set_2(self, _2); set_3(self, _3); set_4(self, _4); set_5(self, _5); set_6(self, _6); set_7(self, _7); set_8(self, _8)
def _make_0989ac88(_set, _FACTORY, set_0, set_1, set_2, set_3, set_4, set_5, set_6, set_7, set_8, set_9):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9): set_0(self, _0); set_1(self, _1); set_2(self, _2); set_3(self, _3); set_4(self, _4); set_5(self, _5); set_6(self, _6); set_7(self, _7); set_8(self, _8); set_9(self, _9)
def _make_f3eb8318(_set, _FACTORY, set_0, set_1, set_2, set_3, set_4, set_5, set_6, set_7, set_8, set_9, make_10, set_10):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10): set_0(self, _0); set_1(self, _1); set_2(self, _2); set_3(self, _3); set_4(self, _4); set_5(self, _5); set_6(self, _6); set_7(self, _7); set_8(self, _8); set_9(self, _9); set_10(self, make_10() if _10 is _FACTORY else _10)
def _make_80ff33b5(_set, _FACTORY, set_0, set_1, set_2, set_3, set_4, set_5, set_6, set_7, set_8, set_9, set_10):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10): set_0(self, _0); set_1(self, _1); set_2(self, _2); set_3(self, _3); set_4(self, _4); set_5(self, _5); set_6(self, _6); set_7(self, _7); set_8(self, _8); set_9(self, _9); set_10(self, _10)
def _make_285bb961(_set, _FACTORY, set_0, set_1, set_2, set_3, set_4, set_5, set_6, set_7, set_8, set_9, set_10):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10): set_0(self, _0); set_1(self, _1); set_2(self, _2); set_3(self, _3); set_4(self, _4); set_5(self, _5); set_6(self, _6); set_7(self, _7); set_8(self, _8); set_9(self, _9); set_10(self, _10); self.__post_init__()
def _make_26cbc1e7(_set, _FACTORY, set_0, set_1, set_2, set_3, set_4, set_5, set_6, set_7, set_8, set_9, set_10, set_11):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11): set_0(self, _0); set_1(self, _1); set_2(self, _2); set_3(self, _3); set_4(self, _4); set_5(self, _5); set_6(self, _6); set_7(self, _7); set_8(self, _8); set_9(self, _9); set_10(self, _10); set_11(self, _11); self.__post_init__()
def _make_f8e85431(_set, _FACTORY, set_0, set_1, set_2, set_3, set_4, set_5, set_6, set_7, set_8, set_9, set_10, set_11):
 def __init__(self, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, *, _0): set_0(self, _0); set_1(self, _1); set_2(self, _2); set_3(self, _3); set_4(self, _4); set_5(self, _5); set_6(self, _6); set_7(self, _7); set_8(self, _8); set_9(self, _9); set_10(self, _10); set_11(self, _11)
def _make_af6f097d(_set, _FACTORY, set_0, set_1, set_2, set_3, set_4, set_5, set_6, set_7, set_8, set_9, set_10, set_11, set_12):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12): set_0(self, _0); set_1(self, _1); set_2(self, _2); set_3(self, _3); set_4(self, _4); set_5(self, _5); set_6(self, _6); set_7(self, _7); set_8(self, _8); set_9(self, _9); set_10(self, _10); set_11(self, _11); set_12(self, _12)
def _make_5cd31f3d(_set, _FACTORY, set_0, set_1, set_2, set_3, set_4, set_5, set_6, set_7, set_8, set_9, set_10, set_11, set_12, set_13, set_14):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14): set_0(self, _0); set_1(self, _1); set_2(self, _2); set_3(self, _3); set_4(self, _4); set_5(self, _5); set_6(self, _6); set_7(self, _7); set_8(self, _8); set_9(self, _9); set_10(self, _10); set_11(self, _11); set_12(self, _12); set_13(self, _13); set_14(self, _14)
def _make_d8c53f7a(_set, _FACTORY, set_0, set_1, set_2, set_3, set_4, set_5, set_6, set_7, set_8, set_9, set_10, set_11, set_12, set_13, set_14, set_15):
 def __init__(self, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15): set_0(self, _0); set_1(self, _1); set_2(self, _2); set_3(self, _3); set_4(self, _4); set_5(self, _5); set_6(self, _6); set_7(self, _7); set_8(self, _8); set_9(self, _9); set_10(self, _10); set_11(self, _11); set_12(self, _12); set_13(self, _13); set_14(self, _14); set_15(self, _15)
def _make_33f5cfd9(_set, _FACTORY, set_0, set_1, set_2, set_3, set_4, set_5, set_6, set_7, set_8, set_9, set_10, set_11, set_12, set_13, set_14, set_15, set_16, set_17):
 def __init__(self, *, _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16, _17): set_0(self, _0); set_1(self, _1); set_2(self, _2); set_3(self, _3); set_4(self, _4); set_5(self, _5); set_6(self, _6); set_7(self, _7); set_8(self, _8); set_9(self, _9); set_10(self, _10); set_11(self, _11); set_12(self, _12); set_13(self, _13); set_14(self, _14); set_15(self, _15); set_16(self, _16); set_17(self, _17); self.__post_init__()
