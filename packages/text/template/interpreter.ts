/**
 * Runs a template: statements write text, expressions have values. What @huggingface/jinja's own interpreter does, with two things beside
 * it: every character knows where it comes from, and everything is paid for out of a budget.
 */
import { MarkedText } from "../tokens/marked-text.js";
import { stepsPerIteration, type TemplateBudget } from "./budget.js";
import { applyFilter } from "./filters.js";
import { bindArguments, specialNamesIn } from "./macros.js";
import { memberOf, sliceOf } from "./members.js";
import type {
  CallNode,
  CallStatementNode,
  Expression,
  FilterNode,
  ForNode,
  MacroNode,
  MemberNode,
  Node,
} from "./nodes.js";
import { binary, test, unary } from "./operators.js";
import {
  type CallArguments,
  Callable,
  Dict,
  isTrue,
  kindOfValue,
  List,
  Namespace,
  NumberValue,
  Scope,
  TemplateError,
  type Value,
} from "./values.js";
import { joined, shown } from "./written.js";

/** What `{% break %}` and `{% continue %}` throw on their way to the loop. */
class LoopJump extends TemplateError {
  readonly ends: boolean;

  constructor(ends: boolean) {
    super(`{% ${ends ? "break" : "continue"} %} stands outside of a loop`);
    this.ends = ends;
  }
}

/** Renders templates within a budget. */
export class Interpreter {
  readonly #budget: TemplateBudget;

  constructor(budget: TemplateBudget) {
    this.#budget = budget;
  }

  /** What statements write. */
  block(nodes: readonly Node[], scope: Scope): MarkedText {
    const pieces = nodes.map((node) => shown(this.evaluate(node, scope), this.#budget));
    return joined(pieces, MarkedText.of(""), this.#budget);
  }

  /** The value of an expression; of a statement, what it writes. */
  evaluate(node: Node, scope: Scope): Value {
    this.#budget.steps(1);
    this.#budget.enter();
    try {
      return this.#evaluate(node, scope);
    } finally {
      this.#budget.leave();
    }
  }

  #evaluate(node: Node, scope: Scope): Value {
    switch (node.type) {
      case "Program":
        return this.block(node.body, scope);
      case "If":
        return this.block(isTrue(this.evaluate(node.test, scope)) ? node.body : node.alternate, scope);
      case "For":
        return this.#for(node, scope);
      case "Set": {
        const value = node.value === null ? this.block(node.body, scope) : this.evaluate(node.value, scope);
        this.#assign(node.assignee, value, scope);
        return null;
      }
      case "Macro":
        scope.set(node.name.value, this.#macro(node));
        return null;
      case "CallStatement":
        return this.#callStatement(node, scope);
      case "FilterStatement":
        return this.#filter(node.filter, this.block(node.body, scope), scope);
      case "Break":
      case "Continue":
        throw new LoopJump(node.type === "Break");
      case "Comment":
        return null;
      case "IntegerLiteral":
      case "FloatLiteral":
        return new NumberValue(node.value, node.type === "FloatLiteral");
      case "StringLiteral":
        return MarkedText.of(node.value);
      case "ArrayLiteral":
      case "TupleLiteral":
        return new List(
          node.value.map((item) => this.evaluate(item, scope)),
          node.type === "TupleLiteral",
        );
      case "ObjectLiteral":
        return new Dict(
          [...node.value].map(([name, item]) => {
            const key = this.evaluate(name, scope);
            if (!(key instanceof MarkedText))
              throw new TemplateError(`the keys of an object are texts, not ${kindOfValue(key)}`);
            return [key, this.evaluate(item, scope)];
          }),
        );
      case "Identifier":
        return scope.get(node.value);
      case "CallExpression": {
        const given = this.#arguments(node.args, scope);
        return this.#call(this.evaluate(node.callee, scope), given);
      }
      case "MemberExpression":
        return this.#member(node, scope);
      case "UnaryExpression":
        return unary(node.operator.value, this.evaluate(node.argument, scope));
      case "BinaryExpression": {
        const left = this.evaluate(node.left, scope);
        const operator = node.operator.value;
        if (operator === "and") return isTrue(left) ? this.evaluate(node.right, scope) : left;
        if (operator === "or") return isTrue(left) ? left : this.evaluate(node.right, scope);
        return binary(operator, left, this.evaluate(node.right, scope), this.#budget);
      }
      case "FilterExpression":
        return this.#filter(node.filter, this.evaluate(node.operand, scope), scope);
      case "TestExpression":
        return test(node.test.value, this.evaluate(node.operand, scope), undefined, this.#budget) !== node.negate;
      case "SelectExpression":
        return isTrue(this.evaluate(node.test, scope)) ? this.evaluate(node.lhs, scope) : undefined;
      case "Ternary":
        return this.evaluate(isTrue(this.evaluate(node.condition, scope)) ? node.trueExpr : node.falseExpr, scope);
      default:
        throw new TemplateError(`"${node.type}" cannot stand here`);
    }
  }

  #for({ loopvar, iterable, body, defaultBlock }: ForNode, around: Scope): MarkedText {
    const scope = new Scope(around);
    const filtered = iterable.type === "SelectExpression" ? iterable : undefined;
    const over = this.evaluate(filtered?.lhs ?? iterable, scope);
    if (!(over instanceof List) && !(over instanceof Dict))
      throw new TemplateError(`a loop goes over a list or an object, not over ${kindOfValue(over)}`);
    const all = over instanceof List ? over.items : [...over.entries.values()].map(([key]) => key);
    this.#budget.steps(all.length);
    const items = all.filter((item) => {
      if (filtered === undefined) return true;
      const inner = new Scope(scope);
      this.#assign(loopvar, item, inner);
      return isTrue(this.evaluate(filtered.test, inner));
    });
    const pieces: MarkedText[] = [];
    for (const [index, item] of items.entries()) {
      this.#budget.steps(stepsPerIteration);
      scope.set("loop", loopOf(items, index));
      this.#assign(loopvar, item, scope);
      try {
        pieces.push(this.block(body, scope));
      } catch (jump) {
        if (!(jump instanceof LoopJump)) throw jump;
        if (jump.ends) break;
      }
    }
    if (pieces.length === 0) pieces.push(this.block(defaultBlock, scope));
    return joined(pieces, MarkedText.of(""), this.#budget);
  }

  #assign(target: Expression, value: Value, scope: Scope): void {
    if (target.type === "Identifier") scope.set(target.value, value);
    else if (target.type === "TupleLiteral") {
      if (!(value instanceof List) || value.items.length !== target.value.length)
        throw new TemplateError(`${target.value.length} names cannot take what ${kindOfValue(value)} holds`);
      target.value.forEach((name, index) => {
        if (name.type !== "Identifier") throw new TemplateError(`"${name.type}" cannot be assigned to`);
        scope.set(name.value, value.items[index]);
      });
    } else if (target.type === "MemberExpression" && target.property.type === "Identifier") {
      const object = this.evaluate(target.object, scope);
      if (!(object instanceof Namespace))
        throw new TemplateError(`only a namespace can be assigned to, not ${kindOfValue(object)}`);
      object.entries.set(target.property.value, value);
    } else throw new TemplateError(`"${target.type}" cannot be assigned to`);
  }

  #macro(node: MacroNode): Callable {
    const special = specialNamesIn(node);
    return new Callable((given) => {
      const scope = new Scope(given.scope);
      bindArguments(node.name.value, node.args, special, given, scope, (value) => this.evaluate(value, scope));
      return this.block(node.body, scope);
    });
  }

  #callStatement(node: CallStatementNode, scope: Scope): Value {
    const special = specialNamesIn(node);
    const caller = new Callable((given) => {
      const inner = new Scope(scope);
      bindArguments("caller", node.callerArgs ?? [], special, given, inner, (value) => this.evaluate(value, inner));
      return this.block(node.body, inner);
    });
    const { positional, named } = this.#arguments(node.call.args, scope);
    const around = new Scope(scope);
    around.set("caller", caller);
    return this.#call(this.evaluate(node.call.callee, scope), {
      positional,
      named,
      scope: around,
      budget: this.#budget,
    });
  }

  #call(callee: Value, given: CallArguments): Value {
    if (!(callee instanceof Callable)) throw new TemplateError(`${kindOfValue(callee)} cannot be called`);
    return callee.call(given);
  }

  #arguments(nodes: CallNode["args"], scope: Scope): CallArguments {
    const positional: Value[] = [];
    const named = new Map<string, Value>();
    const name = (key: string, value: Value): void => {
      if (named.has(key)) throw new TemplateError(`the argument "${key}" is given twice`);
      named.set(key, value);
    };
    for (const node of nodes)
      if (node.type === "SpreadExpression") {
        const value = this.evaluate(node.argument, scope);
        if (!(value instanceof List)) throw new TemplateError(`* unpacks a list, not ${kindOfValue(value)}`);
        this.#budget.steps(value.items.length);
        for (const item of value.items) positional.push(item);
      } else if (node.type !== "KeywordArgumentExpression" && node.type !== "KeywordSpreadExpression")
        positional.push(this.evaluate(node, scope));
    for (const node of nodes)
      if (node.type === "KeywordArgumentExpression") name(node.key.value, this.evaluate(node.value, scope));
      else if (node.type === "KeywordSpreadExpression") {
        const value = this.evaluate(node.argument, scope);
        if (!(value instanceof Dict)) throw new TemplateError(`** unpacks an object, not ${kindOfValue(value)}`);
        this.#budget.steps(value.entries.size);
        for (const [key, [, item]] of value.entries) name(key, item);
      }
    return { positional, named, scope, budget: this.#budget };
  }

  #member({ object, property, computed }: MemberNode, scope: Scope): Value {
    const value = this.evaluate(object, scope);
    if (computed && property.type === "SliceExpression") {
      const bound = (node: Expression | undefined): Value => node && this.evaluate(node, scope);
      return sliceOf(value, [bound(property.start), bound(property.stop), bound(property.step)], this.#budget);
    }
    // Behind a point a name is a name, not what it stands for.
    if (!computed && property.type === "Identifier") return memberOf(value, MarkedText.of(property.value));
    return memberOf(value, this.evaluate(property, scope));
  }

  #filter(filter: FilterNode, value: Value, scope: Scope): Value {
    if (filter.type === "Identifier") return applyFilter(filter.value, value, this.#arguments([], scope), true);
    if (filter.callee.type !== "Identifier") throw new TemplateError(`"${filter.callee.type}" is no filter`);
    return applyFilter(filter.callee.value, value, this.#arguments(filter.args, scope), false);
  }
}

/** What `loop` says about an iteration. */
function loopOf(items: readonly Value[], index: number): Dict {
  const { length } = items;
  return Dict.of([
    ["index", new NumberValue(index + 1)],
    ["index0", new NumberValue(index)],
    ["revindex", new NumberValue(length - index)],
    ["revindex0", new NumberValue(length - index - 1)],
    ["first", index === 0],
    ["last", index === length - 1],
    ["length", new NumberValue(length)],
    ["previtem", items[index - 1]],
    ["nextitem", items[index + 1]],
  ]);
}
