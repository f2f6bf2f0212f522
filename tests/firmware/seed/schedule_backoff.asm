; Seed A, "Reconnect backoff deadline scheduling", retyped; the label .log is where the seed goes on.
schedule_backoff:
mov dword [rbx + SHARD_OFF_STATE], SHARD_STATE_BACKOFF
inc qword [rbx + SHARD_OFF_RECONNECTS]

mov rax, [rel tsc_cycles_per_ms]
test rax, rax
jz .no_tsc

imul rax, SHARD_RECONNECT_BACKOFF_MS
mov r8, rax

rdtsc
shl rdx, 32
or rax, rdx
add rax, r8

mov [rbx + SHARD_OFF_RECONNECT_DEADLINE], rax
jmp .log

.no_tsc:
mov qword [rbx + SHARD_OFF_RECONNECT_DEADLINE], 0
.log:
