"""`px.ptx`: PTX that is no function of elements, operands that do not fit, and what the simulator lacks."""

import numpy as np

import phalanx as px
from errors.casebook import case

X = np.zeros(64, np.float32)


@px.kernel(warps=1)
def said(X, *, TEXT="ex2.approx.ftz.f32 $0, $1;", OUT=px.f32, PACK=1):
    px.store(X[0:64], px.ptx(TEXT, (px.load(X[0:64]),), OUT, sim=np.exp2, pack=PACK))


@case
def no_model():
    @px.kernel(warps=1)
    def bad(X):
        px.store(X[0:64], px.ptx("lg2.approx.f32 $0, $1;", (px.load(X[0:64]),), px.f32))

    bad[1](X)


def too_many(x):
    return x, x


def another_shape(x):
    return x[:3]


@case
def a_model_that_fails():
    @px.kernel(warps=1)
    def bad(X):
        px.store(X[0:64], px.ptx("lg2.approx.f32 $0, $1;", (px.load(X[0:64]),), px.f32, sim=another_shape))

    bad[1](X)


@case
def a_model_with_too_few_results():
    @px.kernel(warps=1)
    def bad(X):
        text = "{ mov.f32 $0, $3; mov.f32 $1, $3; mov.f32 $2, $3; }"
        a, b, c = px.ptx(text, (px.load(X[0:64]),), (px.f32, px.f32, px.f32), sim=too_many)
        px.store(X[0:64], a + b + c)

    bad[1](X)


@case
def a_model_that_is_none():
    @px.kernel(warps=1)
    def bad(X):
        px.store(X[0:64], px.ptx("lg2.approx.f32 $0, $1;", (px.load(X[0:64]),), px.f32, sim="log2"))

    bad[1](X)


@case
def no_text():
    said[1](X, TEXT=" ")


@case
def a_memory_operand():
    said[1](X, TEXT="ld.global.f32 $0, [$1];")


@case
def a_label():
    said[1](X, TEXT="again: add.f32 $0, $1, $1;")


@case
def a_branch():
    said[1](X, TEXT="{ .reg .pred p; setp.gt.f32 p, $1, 0f00000000; @p bra $0; }")


@case
def a_barrier():
    said[1](X, TEXT="bar.sync 0; mov.f32 $0, $1;")


@case
def a_call():
    said[1](X, TEXT="call (retval), f, ($0, $1);")


@case
def other_threads():
    said[1](X, TEXT="shfl.sync.idx.b32 $0, $1, 0, 31, -1;")


@case
def a_special_register():
    said[1](X, TEXT="{ mov.u32 $0, %laneid; mov.f32 $0, $1; }")


@case
def an_operand_too_many():
    said[1](X, TEXT="add.f32 $0, $1, $2;")


@case
def an_operand_without_a_number():
    said[1](X, TEXT="add.f32 $0, $1, $x;")


@case
def an_input_that_is_not_used():
    said[1](X, TEXT="mov.f32 $0, 0f00000000;")


@case
def a_quote():
    said[1](X, TEXT='mov.f32 $0, "$1";')


@case
def an_output_that_is_no_type():
    said[1](X, OUT="f32")


@case
def no_output():
    said[1](X, OUT=())


@case
def inputs_that_are_no_tuple():
    @px.kernel(warps=1)
    def bad(X):
        px.store(X[0:64], px.ptx("ex2.approx.f32 $0, $1;", px.load(X[0:64]), px.f32))

    bad[1](X)


@case
def memory_as_an_input():
    @px.kernel(warps=1)
    def bad(X):
        px.store(X[0:64], px.ptx("ex2.approx.f32 $0, $1;", (X[0:64],), px.f32))

    bad[1](X)


@case
def three_in_a_register():
    said[1](X, PACK=3)


@case
def pairs_of_different_widths():
    said[1](X, TEXT="cvt.rn.bf16x2.f32 $0, $1, $1;", OUT=px.bf16, PACK=2)


@case
def a_comment_that_does_not_end():
    said[1](X, TEXT="ex2.approx.ftz.f32 $0, $1; /* the fast one")


@case
def a_comment_before_the_end_of_an_instruction():
    said[1](X, TEXT="ex2.approx.ftz.f32 $0, $1 // the fast one;")


@case
def a_brace_that_is_not_closed():
    said[1](X, TEXT="{ .reg .f32 t; mov.f32 t, $1; ex2.approx.ftz.f32 $0, t;")


@case
def the_stack():
    said[1](X, TEXT="{ .reg .u64 p; stacksave.u64 p; ex2.approx.ftz.f32 $0, $1; }")


@case
def memory_of_the_stack():
    said[1](X, TEXT="{ .reg .u64 p; alloca.u64 p, 16; ex2.approx.ftz.f32 $0, $1; }")


@case
def an_input_that_is_written():
    said[1](X, TEXT="mul.f32 $1, $1, 0f3FB8AA3B; ex2.approx.ftz.f32 $0, $1;")


@case
def an_input_that_is_written_as_part_of_a_vector():
    said[1](X, TEXT="{ .reg .b16 h; mov.b32 {h, $1}, $1; mov.f32 $0, 0f00000000; }")


@case
def an_output_that_is_not_written():
    said[1](X, TEXT="{ .reg .f32 t; add.f32 t, $0, $1; }")


@case
def a_register_outside_of_braces():
    said[1](X, TEXT=".reg .f32 t; mov.f32 t, $1; ex2.approx.ftz.f32 $0, t;")


@case
def a_variable_in_memory():
    said[1](X, TEXT="{ .shared .b32 x; ex2.approx.ftz.f32 $0, $1; }")
