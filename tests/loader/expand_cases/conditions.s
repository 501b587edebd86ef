.set T, 1
.set F, 0
.if T
> 1
.endif
.if F
> no
.else
> 2
.endif
.if F
> no
.elseif F
> no
.elseif T
> 3
.elseif T
> no
.else
> no
.endif
.if F
.if T
> no
.else
> no
.endif
.elseif T
.if T
> 4
.endif
.endif
.if 1
.elseif foo bar
.endif
.if 0
.if x y
.elseif foo
> no
.else
> no
.endif
.endif
.ifdef T
> 5
.endif
.ifdef U
> no
.endif
.ifndef U
> 6
.endif
.ifnotdef U
> 7
.endif
.ifndef T
> no
.else
> 8
.endif
.ifc a, a
> 9
.endif
.ifc a b , a b
> 10
.endif
.ifc "a b",a b
> no
.endif
.ifc ,
> 11
.endif
.ifnc a,b
> 12
.endif
.ifc a,A
> no
.endif
.ifc a,b,c
> no
.else
> 13
.endif
.ifc a + b,a+b
> 14
.endif
.ifnc "a,b",x
> 15
.endif
.ifb
> 16
.endif
.ifnb ""
> 17
.endif
.ifb x
> no
.endif
.macro B a, b
.ifb \a
> blank [\b]
.else
> not blank [\b]
.endif
.ifnb \b
> b
.endif
.ifc \a,x
> is x
.elseif 1
> is not x
.endif
.endm
B
B x
B , y
B "", z
.irp v, -1, 0, 1
> \v
.ifeq \v
> eq
.endif
.ifne \v
> ne
.endif
.ifgt \v
> gt
.endif
.ifge \v
> ge
.endif
.iflt \v
> lt
.endif
.ifle \v
> le
.endif
.endr
.IF 1
> upper
.ELSE
> no
.ENDIF
