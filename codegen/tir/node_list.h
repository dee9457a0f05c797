// The one list of TIR nodes. Everything that must know all of them (match, printer, parser, C printer, interpreter,
// equality, verifier) is written over std::variant, so that a forgotten node does not compile. New hardware behaviour
// enters as a row of the intrinsic table, not as a node.
#pragma once

#define AIPU_EXPR_TYPES                                                                                        \
  IntImm, FloatImm, StringImm, VarRef, Unary, Binary, Select, Cast, Broadcast, VectorLiteral, Load, AddressOf, \
      LaneRead, IntrinsicCall, FunctionCall

#define AIPU_STMT_TYPES Define, Assign, LaneWrite, Store, Alloc, For, While, If, Evaluate, Return, Break, Block, Comment
