; Seed A, "Gateway resume-state preservation across transport reset", retyped.
restore_resume_state:
mov r12, [rbx + SHARD_OFF_SESSION_PTR]
test r12, r12
jz .no_resume

cmp dword [r12 + SSES_VALID], 1
jne .no_resume

test r15d, SHARD_FLAG_SEQ_VALID
jz .no_resume

mov [rbx + SHARD_OFF_SEQUENCE], r14d
or dword [rbx + SHARD_OFF_FLAGS], SHARD_FLAG_SEQ_VALID
jmp .resume_done

.no_resume:
mov dword [rbx + SHARD_OFF_SEQUENCE], 0xFFFFFFFF
.resume_done:
