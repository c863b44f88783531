/** The syntax tree that @huggingface/jinja's parser makes of a template, in types of our own: the library exports none. */

/** A statement or an expression. */
export type Node = Statement | Expression;

type Statement =
  | { readonly type: "Program"; readonly body: readonly Node[] }
  | {
      readonly type: "If";
      readonly test: Expression;
      readonly body: readonly Node[];
      readonly alternate: readonly Node[];
    }
  | ForNode
  | { readonly type: "Break" | "Continue" | "Comment" }
  | {
      readonly type: "Set";
      readonly assignee: Expression;
      readonly value: Expression | null;
      readonly body: readonly Node[];
    }
  | MacroNode
  | CallStatementNode
  | { readonly type: "FilterStatement"; readonly filter: FilterNode; readonly body: readonly Node[] };

export interface ForNode {
  readonly type: "For";
  readonly loopvar: Identifier | TupleLiteral;
  readonly iterable: Expression;
  readonly body: readonly Node[];
  readonly defaultBlock: readonly Node[];
}

export interface MacroNode {
  readonly type: "Macro";
  readonly name: Identifier;
  readonly args: readonly Parameter[];
  readonly body: readonly Node[];
}

export interface CallStatementNode {
  readonly type: "CallStatement";
  readonly call: CallNode;
  readonly callerArgs: readonly Parameter[] | null;
  readonly body: readonly Node[];
}

interface Identifier {
  readonly type: "Identifier";
  readonly value: string;
}

interface TupleLiteral {
  readonly type: "TupleLiteral";
  readonly value: readonly Expression[];
}

export interface CallNode {
  readonly type: "CallExpression";
  readonly callee: Expression;
  readonly args: readonly Expression[];
}

export interface MemberNode {
  readonly type: "MemberExpression";
  readonly object: Expression;
  readonly property: Expression;
  readonly computed: boolean;
}

interface SelectNode {
  readonly type: "SelectExpression";
  readonly lhs: Expression;
  readonly test: Expression;
}

interface KeywordArgument {
  readonly type: "KeywordArgumentExpression";
  readonly key: Identifier;
  readonly value: Expression;
}

interface SliceNode {
  readonly type: "SliceExpression";
  readonly start?: Expression | undefined;
  readonly stop?: Expression | undefined;
  readonly step?: Expression | undefined;
}

export type FilterNode = Identifier | CallNode;

/** A name, with a default where it has one. */
export type Parameter = Identifier | KeywordArgument;

export type Expression =
  | Identifier
  | TupleLiteral
  | CallNode
  | MemberNode
  | SelectNode
  | KeywordArgument
  | SliceNode
  | { readonly type: "IntegerLiteral" | "FloatLiteral"; readonly value: number }
  | { readonly type: "StringLiteral"; readonly value: string }
  | { readonly type: "ArrayLiteral"; readonly value: readonly Expression[] }
  | { readonly type: "ObjectLiteral"; readonly value: ReadonlyMap<Expression, Expression> }
  | {
      readonly type: "BinaryExpression";
      readonly operator: { readonly value: string };
      readonly left: Expression;
      readonly right: Expression;
    }
  | { readonly type: "FilterExpression"; readonly operand: Expression; readonly filter: FilterNode }
  | {
      readonly type: "TestExpression";
      readonly operand: Expression;
      readonly negate: boolean;
      readonly test: Identifier;
    }
  | { readonly type: "UnaryExpression"; readonly operator: { readonly value: string }; readonly argument: Expression }
  | { readonly type: "SpreadExpression" | "KeywordSpreadExpression"; readonly argument: Expression }
  | {
      readonly type: "Ternary";
      readonly condition: Expression;
      readonly trueExpr: Expression;
      readonly falseExpr: Expression;
    };
