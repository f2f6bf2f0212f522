; A flat multiboot 1 image for tests: one line on COM1, then it echoes each byte it receives, resets
; the machine on "r", and on "w" arms the i6300esb watchdog and never kicks it. Loaded at 1 MiB in
; 32-bit protected mode.
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
    cmp al, 'w'
    je arm
    call put
    jmp echo
reset:
    mov dx, 0xCF9
    mov al, 6
    out dx, al
    jmp reset
arm:                                    ; Intel 6300ESB datasheet, "Watchdog Timer"
    mov ebx, 0x80000000                 ; configuration address of bus 0, device 0
.find:
    mov eax, ebx
    call config
    in eax, dx
    cmp eax, 0x25AB8086
    je .found
    add ebx, 0x800
    jmp .find
.found:
    lea eax, [ebx + 0x04]
    call config
    mov eax, 2                          ; memory space on
    out dx, eax
    lea eax, [ebx + 0x10]
    call config
    in eax, dx
    and eax, ~15
    mov edi, eax
    mov word [edi + 0x0C], 0x80         ; each preload must be unlocked
    mov word [edi + 0x0C], 0x86
    mov dword [edi], 10                 ; first stage, about 10 ms
    mov word [edi + 0x0C], 0x80
    mov word [edi + 0x0C], 0x86
    mov dword [edi + 4], 10             ; second stage, after which it resets
    lea eax, [ebx + 0x68]
    call config
    mov al, 2                           ; enable
    out dx, al
    jmp echo
config:                                 ; EAX = configuration address; leaves DX = the data port
    mov dx, 0xCF8
    out dx, eax
    mov dx, 0xCFC
    ret
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
