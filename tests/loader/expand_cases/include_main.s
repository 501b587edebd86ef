> before
.include "included.s"
FROM_FILE 1
.macro INC n
.include "included2.s"
> after \n
.endm
INC 1
INC 2
