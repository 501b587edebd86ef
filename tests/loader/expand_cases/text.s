   > leading blanks stay,   inner   blanks too
	> a tab	too
> @p bra L; @!p ret;
> %reg $label {a, b} [c+4] x;y
> a = b == c
> .if .endif .macro
> 100% # no comment
.macro TXT a
    > \a   ,   \a
	>	\a
.endm
TXT 1
TXT "a   b"
