package e2e

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

const consoleGuide = "../docs/console.md"

// guideSteps finds the marked blocks of steps in the guide.
var guideSteps = regexp.MustCompile("(?s)<!-- test:(\\S+) -->\n```console\n(.*?)```")

// testFirstSteps takes the steps of the guide, in its order, in one page of a server that
// is new.
func testFirstSteps(t *testing.T, b *browser) {
	text, err := os.ReadFile(consoleGuide)
	if err != nil {
		t.Fatal(err)
	}
	blocks := guideSteps.FindAllStringSubmatch(string(text), -1)
	if len(blocks) != 3 {
		t.Fatalf("%s has %d blocks of steps, want those of a message, a failure and a restart", consoleGuide, len(blocks))
	}
	_, c := startDev(t, "--port", "0")
	page := b.open(t, desktop, c.console(""))
	for _, block := range blocks {
		name, steps := block[1], strings.ReplaceAll(block[2], "http://127.0.0.1:8080", c.base)
		for step := range strings.Lines(steps) {
			page.take(strings.TrimSpace(step))
		}
		page.picture(name)
	}
}

// take takes one step of the guide.
func (p *tab) take(step string) {
	p.t.Helper()
	verb, rest, _ := strings.Cut(step, " ")
	rest = strings.TrimSpace(rest)
	name, value, _ := strings.Cut(rest, ": ")
	switch verb {
	case "press":
		p.press(rest)
	case "see":
		p.sees(rest)
	case "fill":
		p.fill(name, value)
	case "choose":
		p.choose(name, value)
	default:
		p.t.Fatalf("step %q: press, see, fill and choose are known", step)
	}
}
