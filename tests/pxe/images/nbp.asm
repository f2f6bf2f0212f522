; A network boot program for tests: says one line on COM1 for each thing it was asked about, then
; sleeps. Loaded by the boot ROM at 0:7C00 in real mode.
bits 16
org 0x7C00
    xor ax, ax
    mov ds, ax
    mov si, hello
    cld
say:
    lodsb
    test al, al
    jz done
    mov ah, al
    mov dx, 0x3FD
.wait:
    in al, dx
    test al, 0x20
    jz .wait
    mov al, ah
    mov dx, 0x3F8
    out dx, al
    jmp say
done:
    hlt
    jmp done
hello: db "hello from the boot image", 13, 10, 0
