package backoff

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// parser is a recursive descent over one expression, a method per level of
// this grammar:
//
//	whole   = sum
//	sum     = product { ("+" | "-") product }
//	product = factor { ("*" | "/" | "%") factor }
//	factor  = "-" factor | operand
//	operand = number | "retried" | group | name group | name pair
//	group   = "(" sum ")"
//	pair    = "(" sum "," sum ")"
//
// Its errors name the place as a position counted in bytes from 1.
type parser struct {
	source string
	at     int // offset of the next byte to read
	depth  int // factors being parsed inside one another
}

const variable = "retried"

var operators = map[byte]func(x, y float64) float64{
	'+': func(x, y float64) float64 { return x + y },
	'-': func(x, y float64) float64 { return x - y },
	'*': func(x, y float64) float64 { return x * y },
	'/': func(x, y float64) float64 { return x / y },
	'%': math.Mod,
}

var unaryFunctions = map[string]func(x float64) float64{
	"exp": math.Exp, "sqrt": math.Sqrt, "abs": math.Abs,
	"floor": math.Floor, "ceil": math.Ceil, "round": math.Round,
}

var binaryFunctions = map[string]func(x, y float64) float64{
	"pow": math.Pow, "min": math.Min, "max": math.Max,
}

func (p *parser) whole() (term, error) {
	value, err := p.sum()
	if err != nil {
		return nil, err
	}
	if p.skipBlanks(); p.at < len(p.source) {
		return nil, p.expected("an operator")
	}
	return value, nil
}

func (p *parser) sum() (term, error)     { return p.chain("+-", p.product) }
func (p *parser) product() (term, error) { return p.chain("*/%", p.factor) }

// chain parses parts joined by operators of one rank, which group to the left.
func (p *parser) chain(ranked string, part func() (term, error)) (term, error) {
	left, err := part()
	if err != nil {
		return nil, err
	}
	for {
		operator, ok := p.take(ranked)
		if !ok {
			return left, nil
		}
		right, err := part()
		if err != nil {
			return nil, err
		}
		left = binary(operators[operator], left, right)
	}
}

// factor is on every path by which the parser reaches itself again, so it is
// the one place that bounds the depth of the stack.
func (p *parser) factor() (term, error) {
	if p.depth++; p.depth > maxNesting {
		return nil, p.errorf("more than %d levels of nesting", maxNesting)
	}
	defer func() { p.depth-- }()
	if _, ok := p.take("-"); !ok {
		return p.operand()
	}
	value, err := p.factor()
	if err != nil {
		return nil, err
	}
	return unary(func(x float64) float64 { return -x }, value), nil
}

func (p *parser) operand() (term, error) {
	p.skipBlanks()
	if number := p.run(isDigit); number != "" {
		return p.number(number)
	}
	if name := p.run(isLetter); name != "" {
		return p.name(name)
	}
	if strings.HasPrefix(p.source[p.at:], "(") {
		return p.group()
	}
	return nil, p.expected("a number, retried, a function or an opening parenthesis")
}

func (p *parser) number(text string) (term, error) {
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		p.at -= len(text)
		return nil, p.errorf("%.40q is not a number such as 1000 or 1.5", text)
	}
	return func(float64) float64 { return value }, nil
}

func (p *parser) name(name string) (term, error) {
	if name == variable {
		return func(retried float64) float64 { return retried }, nil
	}
	if function, ok := unaryFunctions[name]; ok {
		x, err := p.group()
		return unary(function, x), err
	}
	if function, ok := binaryFunctions[name]; ok {
		x, y, err := p.pair()
		return binary(function, x, y), err
	}
	p.at -= len(name)
	return nil, p.errorf("unknown name %.40q, the known ones are %s", name, strings.Join(knownNames(), " "))
}

func (p *parser) group() (term, error) {
	if err := p.expect("("); err != nil {
		return nil, err
	}
	value, err := p.sum()
	if err != nil {
		return nil, err
	}
	return value, p.expect(")")
}

func (p *parser) pair() (x, y term, err error) {
	if err = p.expect("("); err != nil {
		return nil, nil, err
	}
	if x, err = p.sum(); err != nil {
		return nil, nil, err
	}
	if err = p.expect(","); err != nil {
		return nil, nil, err
	}
	if y, err = p.sum(); err != nil {
		return nil, nil, err
	}
	return x, y, p.expect(")")
}

// take reads the next byte that is not blank if it is one of those wanted.
func (p *parser) take(wanted string) (byte, bool) {
	p.skipBlanks()
	if p.at == len(p.source) || strings.IndexByte(wanted, p.source[p.at]) < 0 {
		return 0, false
	}
	p.at++
	return p.source[p.at-1], true
}

func (p *parser) expect(mark string) error {
	if _, ok := p.take(mark); !ok {
		return p.expected(strconv.Quote(mark))
	}
	return nil
}

func (p *parser) skipBlanks() { p.run(isBlank) }

// run reads the bytes that follow and belong to a class.
func (p *parser) run(belongs func(byte) bool) string {
	start := p.at
	for p.at < len(p.source) && belongs(p.source[p.at]) {
		p.at++
	}
	return p.source[start:p.at]
}

// expected is the error of finding something else at the current position.
func (p *parser) expected(what string) error {
	if p.at == len(p.source) {
		return p.errorf("expected %s, but it ends here", what)
	}
	_, size := utf8.DecodeRuneInString(p.source[p.at:])
	return p.errorf("expected %s, found %q", what, p.source[p.at:p.at+size])
}

func (p *parser) errorf(format string, args ...any) error {
	return fmt.Errorf("at position %d, %s", p.at+1, fmt.Sprintf(format, args...))
}

func unary(function func(float64) float64, x term) term {
	return func(retried float64) float64 { return function(x(retried)) }
}

func binary(function func(x, y float64) float64, x, y term) term {
	return func(retried float64) float64 { return function(x(retried), y(retried)) }
}

func isBlank(c byte) bool  { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' || c == '.' }
func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' }

func knownNames() []string {
	names := slices.AppendSeq([]string{variable}, maps.Keys(unaryFunctions))
	names = slices.AppendSeq(names, maps.Keys(binaryFunctions))
	slices.Sort(names)
	return names
}
