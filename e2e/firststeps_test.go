package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
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
	workflow := startGuideWorkflow(t, c, string(text))
	page := b.open(t, desktop, c.console(""))
	for _, block := range blocks {
		name, steps := block[1], strings.NewReplacer("http://127.0.0.1:8080", c.base, "127.0.0.1:3000", workflow).Replace(block[2])
		for step := range strings.Lines(steps) {
			page.take(strings.TrimSpace(step))
		}
		page.picture(name)
	}
}

// guideShell finds the commands by which the guide starts its workflow.
var guideShell = regexp.MustCompile("(?s)<!-- test:first-workflow -->\n```sh\n(.*?)```")

// startGuideWorkflow runs the commands of the guide and returns where the workflow
// listens.
func startGuideWorkflow(t *testing.T, c *client, guide string) (address string) {
	t.Helper()
	found := guideShell.FindStringSubmatch(guide)
	if found == nil {
		t.Fatalf("%s does not start a workflow", consoleGuide)
	}
	address = "127.0.0.1:" + freePort(t)
	cmd := exec.Command("bash", "-c", strings.NewReplacer("http://127.0.0.1:8080", c.base, "127.0.0.1:3000", address).Replace(found[1]))
	cmd.Dir = ".."
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // go run, and what it runs
		_ = cmd.Wait()
	})
	await(t, "the workflow of the guide", func() bool {
		response, err := http.Get("http://" + address)
		if err == nil {
			_ = response.Body.Close()
		}
		return err == nil
	})
	return address
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
	case "open":
		p.openFirstRow()
	default:
		p.t.Fatalf("step %q: press, see, fill, choose and open are known", step)
	}
}
