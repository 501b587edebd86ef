.macro A a b c
> \a \b \c
.endm
A 1 2 3
.macro B, a, b
> \a\b
.endm
B 1 2
.macro C a=x y
> \a-\y
.endm
C , 1
C
.macro D a="x y", b=[p q], c = 3
> \a|\b|\c
.endm
D
D , ,4
D c=4
.macro E a : req , b = 3
> \a-\b
.endm
E 1
E b=2 a=1
.macro F a=1:req
> \a
.endm
F
.macro G a.b $c _d
> \a.b \$c \_d
.endm
G 1 2 3
.macro H A
> \A
.endm
h 1
.macro I p1 p2 p3 p4 p5 p6 p7 p8 p9 p10 p11 p12
> \p1 \p12 \p10 \p11 .
.endm
I a b c d e f g h i j k l
I p12=z p1=y
.MACRO J a
> \a
.ENDM
j up
J down
.macro .dotted a
> dotted \a
.endm
.dotted 1
.Dotted 2
.macro K
> none
.endm
K
K   
.purgem K
.macro K a
> again \a
.endm
K 2
