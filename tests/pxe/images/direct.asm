; A flat multiboot 1 image for tests: one line on COM1, then it echoes each byte it receives, and
; resets the machine on "r". Loaded at 1 MiB in 32-bit protected mode.
bits 32
org 0x100000
header:
    dd 0x1BADB002, 0x00010000, -(0x1BADB002 + 0x00010000)
    dd header, header, 0, 0, start      ; header, load, load end (whole file), bss end, entry
start:
    mov esi, hello
    cld
.next:
    lodsb
    test al, al
    jz echo
    call put
    jmp .next
echo:
    mov dx, 0x3FD
    in al, dx
    test al, 1
    jz echo
    mov dx, 0x3F8
    in al, dx
    cmp al, 'r'
    je reset
    call put
    jmp echo
reset:
    mov dx, 0xCF9
    mov al, 6
    out dx, al
    jmp reset
put:
    mov ah, al
    mov dx, 0x3FD
.wait:
    in al, dx
    test al, 0x20
    jz .wait
    mov al, ah
    mov dx, 0x3F8
    out dx, al
    ret
hello: db "hello in protected mode", 10, 0
