"""Write `instructions.py` from iced-x86's tables: `python -m toolchain.asm.generate`.

The result is committed, so that editors and type checkers see every instruction. Taken are the
general-purpose, SSE to SSE4.2, AES-NI, PCLMULQDQ, SHA-NI, BMI, ADX and system instructions in legacy
encoding, and of the VEX-encoded ones only those on general-purpose registers (Unicorn runs VEX.128
wrong without saying so).
"""

from __future__ import annotations

import itertools
import keyword
from collections import defaultdict
from pathlib import Path

import iced_x86 as ix

_FEATURES = (
    "INTEL8086 INTEL186 INTEL286 INTEL386 INTEL486 X64 CMOV CX8 CMPXCHG16B CPUID MSR TSC RDTSCP "
    "SSE SSE2 SSE3 SSSE3 SSE4_1 SSE4_2 POPCNT LZCNT BMI1 BMI2 ADX AES PCLMULQDQ SHA MOVBE RDRAND "
    "RDSEED FXSR XSAVE PAUSE MULTIBYTENOP CLFSH FSGSBASE SMAP"
).split()
_GPR_VEX = {"BMI1", "BMI2"}

# iced's operand kinds as ours: registers rN, register-or-memory rmN, memory m, immediates, fixed.
_KINDS = {
    "AL": "al", "AX": "ax", "EAX": "eax", "RAX": "rax", "CL": "cl", "DX": "dx",
    "R8_REG": "r8", "R8_OPCODE": "r8", "R8_OR_MEM": "rm8",
    "R16_REG": "r16", "R16_OPCODE": "r16", "R16_RM": "r16", "R16_OR_MEM": "rm16", "R16_REG_MEM": "r16",
    "R32_REG": "r32", "R32_OPCODE": "r32", "R32_RM": "r32", "R32_VVVV": "r32", "R32_OR_MEM": "rm32",
    "R64_REG": "r64", "R64_OPCODE": "r64", "R64_RM": "r64", "R64_VVVV": "r64", "R64_OR_MEM": "rm64",
    "XMM_REG": "x", "XMM_RM": "x", "XMM_OR_MEM": "xm", "MEM": "m",
    "IMM8": "i8", "IMM8SEX16": "i8s", "IMM8SEX32": "i8s", "IMM8SEX64": "i8s", "IMM16": "i16",
    "IMM32": "i32", "IMM32SEX64": "i32s", "IMM64": "i64", "IMM8_CONST_1": "one",
    "CR_REG": "cr", "SEG_REG": "seg", "ES": "es", "CS": "cs", "SS": "ss", "DS": "ds", "FS": "fs", "GS": "gs",
}  # fmt: skip
_CLASSES = {
    "al": "Reg8", "cl": "Reg8", "r8": "Reg8", "ax": "Reg16", "dx": "Reg16", "r16": "Reg16",
    "eax": "Reg32", "r32": "Reg32", "rax": "Reg64", "r64": "Reg64", "x": "Xmm", "cr": "CtrlReg",
    "seg": "SegReg", "es": "SegReg", "cs": "SegReg", "ss": "SegReg", "ds": "SegReg",
    "fs": "SegReg", "gs": "SegReg",
    "i8": "int", "i8s": "int", "i16": "int", "i32": "int", "i32s": "int", "i64": "int", "one": "int",
}  # fmt: skip
_BY_HAND = {
    "call", "jmp", "ret", "retf", "loop", "loope", "loopne", "jrcxz", "jecxz", "jcxz", "xbegin", "int", "int1",
    "into", "bound", "enter", "leave", "les", "lds", "lfs", "lgs", "lss", "arpl", "salc",
    "umov", "cmpsd", "movsd", "storeall", "loadall", "ibts", "xbts", "aaa", "aad", "aam", "aas",
    "daa", "das", "popa", "popad", "pusha", "pushad", "mov_cr",
    "sal", "ud0", "ud1", "reservednop", "pcmpestri64", "pcmpestrm64",  # NASM has no name of its own for these
}  # fmt: skip
# Forms that NASM has no spelling for, or whose result is undefined (bswap r16).
_NOT_NASM = {
    "BSWAP_R16", "MOVZX_R16_RM16", "MOVSX_R16_RM16", "MOVSXD_R16_RM16", "MOVSXD_R32_RM32",
    "PINSRB_XMM_R64M8_IMM8", "PMOVMSKB_R64_XMM", "PEXTRB_R64M8_XMM_IMM8", "EXTRACTPS_R64M32_XMM_IMM8",
    *(f"{m}_{w}" for m in ("LLDT", "LMSW", "LTR", "VERR", "VERW") for w in ("R32M16", "R64M16")),
}  # fmt: skip
_STRINGS = ("movs", "stos", "lods", "scas", "cmps", "ins", "outs")
_SUFFIX = {"b": 1, "w": 2, "d": 4, "q": 8}


def _usable(info: ix.OpCodeInfo, features: set[str]) -> bool:
    if not info.is_instruction or not features <= set(_FEATURES):
        return False
    if info.encoding == ix.EncodingKind.VEX:
        return features <= _GPR_VEX
    return bool(info.encoding == ix.EncodingKind.LEGACY)


def collect() -> dict[str, list[tuple[str, tuple[str, ...], int]]]:
    """Return mnemonic -> forms, each iced's code name, our operand kinds and the memory size."""
    kind_names = {
        getattr(ix.OpCodeOperandKind, n): n
        for n in dir(ix.OpCodeOperandKind)
        if n[0] != "_" and n.isupper()
    }
    feature_names = {
        getattr(ix.CpuidFeature, n): n for n in dir(ix.CpuidFeature) if n[0] != "_" and n.isupper()
    }
    mnemonics = {
        getattr(ix.Mnemonic, n): n.lower() for n in dir(ix.Mnemonic) if n[0] != "_" and n.isupper()
    }
    forms: dict[str, list[tuple[str, tuple[str, ...], int]]] = defaultdict(list)
    for name in sorted(n for n in dir(ix.Code) if n[0] != "_" and n.isupper()):
        code = getattr(ix.Code, name)
        info = ix.OpCodeInfo(code)
        ins = ix.Instruction()
        ins.code = code
        features = {feature_names[f] for f in ins.cpuid_features()}
        if not _usable(info, features):
            continue
        mnemonic = mnemonics[info.mnemonic]
        kinds = [kind_names[info.op_kind(i)] for i in range(info.op_count)]
        if name in _NOT_NASM:
            continue
        if mnemonic in _BY_HAND and not (mnemonic == "movsd" and "XMM" in name):
            continue
        if mnemonic[0] == "j" or any(k not in _KINDS for k in kinds) or "MM_MMM" in name:
            continue
        if mnemonic[:-1] in _STRINGS and "XMM" not in name:
            continue
        size = ix.MemorySizeExt.size(info.memory_size)
        forms[mnemonic].append((name, tuple(_KINDS[k] for k in kinds), size))
    return dict(sorted(forms.items()))


# The address of a symbol as an immediate makes sense here.
_OFFSETS = ("mov", "add", "sub", "cmp", "push")


def _concrete(mnemonic: str, kinds: tuple[str, ...], size: int) -> list[tuple[str, ...]]:
    options: list[list[str]] = []
    for kind in kinds:
        mem = f"Mem{size * 8}" if size in (1, 2, 4, 8, 16) else "Mem"
        if kind == "m":
            options.append([mem])
        elif kind == "xm":
            options.append(["Xmm", mem])
        elif kind.startswith("rm"):
            options.append([f"Reg{kind[2:]}", mem])
        elif kind in ("i16", "i32", "i64") and mnemonic in _OFFSETS:
            options.append(["int", "Offset"])
        else:
            options.append([_CLASSES[kind]])
    return list(itertools.product(*options))


def _signatures(mnemonic: str, forms: list[tuple[str, tuple[str, ...], int]]) -> list[list[str]]:
    merged: dict[tuple[str, ...], set[str]] = defaultdict(set)
    empty = False
    for _, kinds, size in forms:
        for combo in _concrete(mnemonic, kinds, size):
            if combo:
                merged[combo[:-1]].add(combo[-1])
            else:
                empty = True
    rows: dict[tuple[tuple[str, ...], tuple[str, ...]], None] = {}
    for head, ends in merged.items():
        rows[head, tuple(sorted(ends))] = None
    result: list[list[str]] = [[]] if empty else []
    for head, tail in rows:
        args: list[str] = []
        valued = bool(head) and head[0].startswith("Mem") and head[0] != "Mem" and "int" in tail
        for n, cls in enumerate(head):
            generic = "[V]" if valued and n == 0 else "[Any]"
            args.append(cls + generic if cls.startswith("Mem") else cls)
        last = [c + "[Any]" if c.startswith("Mem") else c for c in tail]
        args.append(" | ".join("V" if valued and c == "int" else c for c in last))
        result.append(args)
    return result


def _method_name(mnemonic: str) -> str:
    return mnemonic + "_" if keyword.iskeyword(mnemonic) else mnemonic


def _method(mnemonic: str, forms: list[tuple[str, tuple[str, ...], int]]) -> list[str]:
    name = _method_name(mnemonic)
    signatures = _signatures(mnemonic, forms)
    if mnemonic == "imul":  # NASM's short spelling of the three-operand form
        signatures += [[f"Reg{w}", "int"] for w in (16, 32, 64)]
    lines: list[str] = []
    names = ("dst", "src", "third", "fourth")

    def arguments(args: list[str]) -> str:
        return "".join(f", {n}: {cls}" for n, cls in zip(names, args, strict=False)) + ", /"

    if len(signatures) == 1:
        args = signatures[0]
        tail = arguments(args) if args else ""
        call = "".join(f", {n}" for n in names[: len(args)])
        return [
            f"    def {name}(self{tail}) -> None:",
            f'        """Emit {mnemonic.upper()}."""',
            f'        self.emit("{mnemonic}"{call})',
            "",
        ]
    for args in signatures:
        tail = arguments(args) if args else ""
        lines += ["    @overload", f"    def {name}(self{tail}) -> None: ..."]
    lines += [
        f"    def {name}(self, *ops: Any) -> None:",
        f'        """Emit {mnemonic.upper()}."""',
        f'        self.emit("{mnemonic}", *ops)',
        "",
    ]
    return lines


def render() -> str:
    """Return the text of `instructions.py`."""
    forms = collect()
    out = [
        '"""Every instruction as a typed method. Generated by `toolchain.asm.generate`: do not edit."""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import TYPE_CHECKING, Any, TypeVar, overload",
        "",
        "from toolchain.asm.operands import Mem, Mem8, Mem16, Mem32, Mem64, Mem128",
        "from toolchain.asm.registers import CtrlReg, Reg8, Reg16, Reg32, Reg64, SegReg, Xmm",
        "",
        "if TYPE_CHECKING:",
        "    from toolchain.asm.assembler import Offset",
        "",
        'V = TypeVar("V", bound=int)',
        "",
        "# mnemonic: (iced code name, operand kinds, memory operand bytes)",
        "FORMS: dict[str, tuple[tuple[str, tuple[str, ...], int], ...]] = {",
    ]
    for mnemonic, rows in forms.items():
        out.append(f'    "{mnemonic}": (')
        out += [f'        ("{n}", {k!r}, {s}),' for n, k, s in rows]
        out.append("    ),")
    out += [
        "}",
        "",
        "",
        "class Instructions:",
        '    """The instruction methods; `Asm` supplies `emit`."""',
        "",
    ]
    out += [
        "    def emit(self, mnemonic: str, *ops: Any) -> None:",
        '        """Append one instruction."""',
    ]
    out += ["        raise NotImplementedError(mnemonic)", ""]
    for mnemonic, rows in forms.items():
        out += _method(mnemonic, rows)
    for stem in _STRINGS:
        for suffix in _SUFFIX:
            if (stem in ("ins", "outs")) and suffix == "q":
                continue
            name = stem + suffix
            prefixes = ("", "repe_", "repne_") if stem in ("scas", "cmps") else ("", "rep_")
            for prefix in prefixes:
                if name == "movsd" and not prefix:
                    continue  # the SSE move owns the bare name; use rep_movsd or two operands
                out += [
                    f"    def {prefix}{name}(self) -> None:",
                    f'        """Emit {(prefix + name).replace("_", " ").upper()}."""',
                    f'        self.emit("{(prefix + name).replace("_", " ")}")',
                    "",
                ]
    return "\n".join(out).rstrip() + "\n"


if __name__ == "__main__":
    Path(__file__).with_name("instructions.py").write_text(render(), encoding="utf-8")
