package backoff_test

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"posthaste/internal/backoff"
)

// tree is an expression as the model knows it: an operator, a function, a
// number or the variable, with what it applies to.
type tree struct {
	kind  string
	value float64
	parts []tree
}

// ranks orders what binds its parts; a kind that is missing stands by itself.
var ranks = map[string]int{"+": 1, "-": 1, "*": 2, "/": 2, "%": 2, "negate": 3}

const standsAlone = 4

// TestExpressionAgreesWithModel draws trees, prints them with no more
// parentheses than are needed, and compares the parsed text's value with the
// value of the tree.
func TestExpressionAgreesWithModel(t *testing.T) {
	trees := drawTrees(4)
	rapid.Check(t, func(t *rapid.T) {
		drawn := trees.Draw(t, "tree")
		retried := rapid.IntRange(0, 20).Draw(t, "retried")
		blank := rapid.SampledFrom([]string{"", " ", "\t "}).Draw(t, "blank")
		source := strings.ReplaceAll(drawn.print(0), " ", blank)
		if len(source) > 1024 {
			t.Skip("too long")
		}
		expression, err := backoff.Parse(source)
		if err != nil {
			t.Fatal(err)
		}
		want, wantOK := asDelay(drawn.evaluate(float64(retried)))
		got, ok := expression.Delay(retried)
		if got != want || ok != wantOK {
			t.Fatalf("Delay(%d) of %q = %v, %v; want %v, %v", retried, source, got, ok, want, wantOK)
		}
	})
}

func drawTrees(depth int) *rapid.Generator[tree] {
	leaves := rapid.OneOf(
		rapid.Just(tree{kind: "retried"}),
		rapid.Map(rapid.IntRange(0, 5000), func(n int) tree { return tree{kind: "number", value: float64(n)} }),
		rapid.Map(rapid.Float64Range(0, 100), func(x float64) tree { return tree{kind: "number", value: x} }),
	)
	if depth == 0 {
		return leaves
	}
	return rapid.OneOf(leaves,
		drawNodes(1, depth, "negate", "exp", "sqrt", "abs", "floor", "ceil", "round"),
		drawNodes(2, depth, "+", "-", "*", "/", "%", "pow", "min", "max"))
}

func drawNodes(parts, depth int, kinds ...string) *rapid.Generator[tree] {
	smaller := drawTrees(depth - 1)
	return rapid.Custom(func(t *rapid.T) tree {
		return tree{
			kind:  rapid.SampledFrom(kinds).Draw(t, "kind"),
			parts: rapid.SliceOfN(smaller, parts, parts).Draw(t, "parts"),
		}
	})
}

// print writes the tree, in parentheses if it binds less than so tightly. Every
// place where a blank may stand has one.
func (n tree) print(tightly int) string {
	rank, ranked := ranks[n.kind]
	if !ranked {
		rank = standsAlone
	}
	if rank < tightly {
		return "( " + n.print(0) + " )"
	}
	switch {
	case n.kind == "number":
		return strconv.FormatFloat(n.value, 'f', -1, 64)
	case n.kind == "retried":
		return n.kind
	case n.kind == "negate":
		return "- " + n.parts[0].print(rank)
	case ranked:
		return n.parts[0].print(rank) + " " + n.kind + " " + n.parts[1].print(rank+1)
	case len(n.parts) == 1:
		return n.kind + " ( " + n.parts[0].print(0) + " )"
	default:
		return n.kind + " ( " + n.parts[0].print(0) + " , " + n.parts[1].print(0) + " )"
	}
}

func (n tree) evaluate(retried float64) float64 {
	switch n.kind {
	case "number":
		return n.value
	case "retried":
		return retried
	}
	x := n.parts[0].evaluate(retried)
	if len(n.parts) == 1 {
		return evaluateUnary(n.kind, x)
	}
	return evaluateBinary(n.kind, x, n.parts[1].evaluate(retried))
}

func evaluateUnary(kind string, x float64) float64 {
	switch kind {
	case "negate":
		return -x
	case "exp":
		return math.Exp(x)
	case "sqrt":
		return math.Sqrt(x)
	case "abs":
		return math.Abs(x)
	case "floor":
		return math.Floor(x)
	case "ceil":
		return math.Ceil(x)
	case "round":
		return math.Round(x)
	}
	panic("unknown function " + kind)
}

func evaluateBinary(kind string, x, y float64) float64 {
	switch kind {
	case "+":
		return x + y
	case "-":
		return x - y
	case "*":
		return x * y
	case "/":
		return x / y
	case "%":
		return math.Mod(x, y)
	case "pow":
		return math.Pow(x, y)
	case "min":
		return math.Min(x, y)
	case "max":
		return math.Max(x, y)
	}
	panic("unknown function " + kind)
}

// asDelay says what a number of milliseconds means as a delay.
func asDelay(ms float64) (time.Duration, bool) {
	const day = 24 * 60 * 60 * 1000
	switch {
	case math.IsNaN(ms), math.IsInf(ms, 0):
		return 0, false
	case ms < 0:
		return 0, true
	case ms > day:
		return 24 * time.Hour, true
	}
	return time.Duration(ms * 1e6), true
}
