package backoff_test

import (
	"strings"
	"testing"
	"time"

	"posthaste"
	"posthaste/internal/backoff"
)

// Contract, messages 1.4, U-30, U-32 and U-33.
func TestExpressionDelay(t *testing.T) {
	const ms = time.Millisecond
	tests := []struct {
		name    string
		source  string
		retried int
		want    time.Duration
	}{
		{"number", "1000", 0, 1000 * ms},
		{"decimal", "1.5", 0, 1500 * time.Microsecond},
		{"decimal without whole part", ".5", 0, 500 * time.Microsecond},
		{"variable, first retry", "2000 * retried", 0, 0},
		{"variable, third retry", "2000 * retried", 2, 4000 * ms},
		{"linear", "1000 * (1 + retried)", 3, 4000 * ms},
		{"exponential", "pow(2, retried) * 1000", 5, 32000 * ms},
		{"square", "pow(retried, 2) * 1000", 3, 9000 * ms},
		{"nested calls, lower arm", "max(1000, pow(2, retried) * 100)", 1, 1000 * ms},
		{"nested calls, upper arm", "max(1000, pow(2, retried) * 100)", 6, 6400 * ms},
		{"min", "min(500, retried * 200)", 9, 500 * ms},
		{"exp", "floor(exp(retried))", 2, 7 * ms},
		{"sqrt", "sqrt(retried)", 16, 4 * ms},
		{"abs", "abs(1 - retried)", 6, 5 * ms},
		{"floor", "floor(2.9)", 0, 2 * ms},
		{"ceil", "ceil(2.1)", 0, 3 * ms},
		{"round", "round(2.5)", 0, 3 * ms},
		{"product before sum", "1 + 2 * 3", 0, 7 * ms},
		{"quotient before difference", "10 - 6 / 2", 0, 7 * ms},
		{"sums group to the left", "10 - 3 - 2", 0, 5 * ms},
		{"quotients group to the left", "100 / 10 / 2", 0, 5 * ms},
		{"remainder ranks with the product", "7 % 4 * 2", 0, 6 * ms},
		{"remainder", "1000 * (retried % 3)", 5, 2000 * ms},
		{"sign before a product", "-2 * -3", 0, 6 * ms},
		{"sign of a sign", "--4", 0, 4 * ms},
		{"sign after an operator", "10 - -5", 0, 15 * ms},
		{"sign of a group", "-(1 - 3)", 0, 2 * ms},
		{"blanks everywhere", " \tpow ( 2 ,\n retried ) * 10 ", 3, 80 * ms},
		{"no blanks", "pow(2,retried)*10", 3, 80 * ms},
		{"negative is no wait", "0 - 5000", 0, 0},
		{"a day is the longest", "86400001", 0, 24 * time.Hour},
		{"a large value is a day", "pow(10, 300)", 0, 24 * time.Hour},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			expression, err := backoff.Parse(test.source)
			if err != nil {
				t.Fatal(err)
			}
			got, ok := expression.Delay(test.retried)
			if !ok || got != test.want {
				t.Errorf("Delay(%d) of %q = %v, %v; want %v", test.retried, test.source, got, ok, test.want)
			}
		})
	}
}

// Contract, U-32.
func TestExpressionDelayNotFinite(t *testing.T) {
	for _, source := range []string{"1 / 0", "-1 / 0", "0 / 0", "1 % 0", "sqrt(-1)", "exp(1000)", "pow(-8, 0.5)"} {
		expression, err := backoff.Parse(source)
		if err != nil {
			t.Fatal(err)
		}
		if delay, ok := expression.Delay(0); ok {
			t.Errorf("Delay of %q = %v, want none", source, delay)
		}
	}
}

// Contract, U-30 and U-31.
func TestParseErrors(t *testing.T) {
	nested := strings.Repeat("(", 40) + "1" + strings.Repeat(")", 40)
	tests := []struct {
		name   string
		source string
		want   string // after `"<source>" is not a delay expression: `
	}{
		{"empty", "", "at position 1, expected a number, retried, a function or an opening parenthesis, but it ends here"},
		{"blank", "  ", "at position 3, expected a number, retried, a function or an opening parenthesis, but it ends here"},
		{"no right side", "1 +", "at position 4, expected a number, retried, a function or an opening parenthesis, but it ends here"},
		{"no left side", "* 2", `at position 1, expected a number, retried, a function or an opening parenthesis, found "*"`},
		{"no unary plus", "+2", `at position 1, expected a number, retried, a function or an opening parenthesis, found "+"`},
		{"power operator", "2 ** 3", `at position 4, expected a number, retried, a function or an opening parenthesis, found "*"`},
		{"unit", "10s", `at position 3, expected an operator, found "s"`},
		{"exponent", "1e3", `at position 2, expected an operator, found "e"`},
		{"two values", "1 2", `at position 3, expected an operator, found "2"`},
		{"other alphabet", "1 × 2", `at position 3, expected an operator, found "×"`},
		{"broken UTF-8", "1 \xff", `at position 3, expected an operator, found "\xff"`},
		{"two points", "1 + 1.2.3", `at position 5, "1.2.3" is not a number such as 1000 or 1.5`},
		{"point alone", ".", `at position 1, "." is not a number such as 1000 or 1.5`},
		{"open group", "(1", `at position 3, expected ")", but it ends here`},
		{"superfluous close", "1)", `at position 2, expected an operator, found ")"`},
		{"call without parentheses", "pow", `at position 4, expected "(", but it ends here`},
		{"one value too few", "pow(2)", `at position 6, expected ",", found ")"`},
		{"one value too many", "sqrt(2, 3)", `at position 7, expected ")", found ","`},
		{"no value", "exp()", `at position 5, expected a number, retried, a function or an opening parenthesis, found ")"`},
		{"other case", "1 + Pow(2, 3)", `at position 5, unknown name "Pow", the known ones are abs ceil exp floor max min pow retried round sqrt`},
		{"unknown variable", "attempt", `at position 1, unknown name "attempt", the known ones are abs ceil exp floor max min pow retried round sqrt`},
		{"deep groups", nested, "at position 33, more than 32 levels of nesting"},
		{"many signs", strings.Repeat("-", 40) + "1", "at position 33, more than 32 levels of nesting"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := backoff.Parse(test.source)
			if posthaste.ErrorCode(err) != posthaste.CodeInvalid {
				t.Fatalf("error %v has not CodeInvalid", err)
			}
			_, reason, _ := strings.Cut(err.Error(), " is not a delay expression: ")
			if reason != test.want {
				t.Errorf("got  %s\nwant %s", reason, test.want)
			}
		})
	}
}

// Contract, U-33.
func TestParseLimits(t *testing.T) {
	longest := "1" + strings.Repeat("+1", 511) + " "
	expression, err := backoff.Parse(longest)
	if err != nil {
		t.Fatalf("%d bytes: %v", len(longest), err)
	}
	if delay, _ := expression.Delay(0); delay != 512*time.Millisecond {
		t.Errorf("Delay = %v, want 512ms", delay)
	}
	if _, err := backoff.Parse(longest + " "); posthaste.ErrorCode(err) != posthaste.CodeInvalid {
		t.Errorf("%d bytes: error %v, want CodeInvalid", len(longest)+1, err)
	}
	deepest := strings.Repeat("(", 31) + "1" + strings.Repeat(")", 31)
	if _, err := backoff.Parse(deepest); err != nil {
		t.Errorf("%s: %v", deepest, err)
	}
}

// Contract, U-31.
func TestCheck(t *testing.T) {
	tests := []struct {
		name   string
		source string
		want   string // "" if accepted
	}{
		{"accepted", "1000 * (1 + retried)", ""},
		{"negative", "-1", ""},
		{"not finite later", "1 / (1 - retried)", ""},
		{"not finite at first", "1 / retried",
			`Retry-Delay "1 / retried" has no finite value for retried = 0, it must be a number of milliseconds`},
		{"malformed", "5 5",
			`Retry-Delay "5 5" is not a delay expression: at position 3, expected an operator, found "5"`},
		{"too long", strings.Repeat("1", 1025),
			`Retry-Delay "` + strings.Repeat("1", 40) + `"… is 1025 bytes long, a delay expression has at most 1024`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := backoff.Check("Retry-Delay", test.source)
			switch {
			case test.want == "" && err != nil:
				t.Fatal(err)
			case test.want == "":
				return
			case posthaste.ErrorCode(err) != posthaste.CodeInvalid:
				t.Fatalf("error %v has not CodeInvalid", err)
			case err.Error() != test.want:
				t.Errorf("got  %s\nwant %s", err, test.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"1000", "pow(2, retried) * 1000", "max(1000, -retried % 3)", "((1", "1.2.3", "--1", "exp(1000) / 0", "\xff",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, source string) {
		expression, err := backoff.Parse(source)
		if err != nil {
			if posthaste.ErrorCode(err) != posthaste.CodeInvalid {
				t.Fatalf("error %v has not CodeInvalid", err)
			}
			return
		}
		for _, retried := range []int{0, 1, 1000} {
			if delay, ok := expression.Delay(retried); ok && (delay < 0 || delay > 24*time.Hour) {
				t.Fatalf("Delay(%d) of %q = %v", retried, source, delay)
			}
		}
	})
}
