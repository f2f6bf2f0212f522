; Seed A, "Code example of lease-expiry gating", retyped; the callee's name is the test's.
legacy_shards_lease_tick64:
    cmp dword [rel shard_lease_expired], 1
    je .done
    mov r8, [rel shard_lease_deadline]
    test r8, r8
    jz .done

    rdtsc
    shl rdx, 32
    or rax, rdx
    cmp rax, r8
    jb .done

    call legacy_shards_expire_lease64
.done:
    ret
