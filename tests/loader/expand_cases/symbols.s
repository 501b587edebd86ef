.set a, 3
.equ b, a + 1
c = b * 2
c = c + 1
d == 7
.equiv e, d
.set a.b, 1
.set $x, 2
.set _y_, 3
.macro V name, want
.if \name == \want
> \name is \want
.else
> \name is NOT \want
.endif
.endm
V a, 3
V b, 4
V c, 9
V d, 7
V e, 7
V a.b, 1
V $x, 2
V _y_, 3
.macro BUMP
.set count, count + 1
.endm
.set count, 0
.rept 5
BUMP
.endr
V count, 5
x=1
x =2
V x, 2
.macro SETV n, v
.set v_\n, \v
.endm
.irp i, 0, 1, 2
SETV \i, \i*\i
.endr
V v_0, 0
V v_1, 1
V v_2, 4
.SET up, 1
V up, 1
.ifdef V
> no
.else
> a macro is no symbol
.endif
