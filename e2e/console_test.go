package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// TestConsoleIsBuiltFromItsSources builds the console anew and compares it, byte by
// byte, with what the program embeds.
func TestConsoleIsBuiltFromItsSources(t *testing.T) {
	onceOnly(t)
	t.Parallel()
	needModules(t, webDirectory)
	built := t.TempDir()
	for _, command := range [][]string{{"npx", "tsc", "--noEmit"}, {"node", "build.mjs", built}} {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Dir = webDirectory
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", command, err, output)
		}
	}
	const embedded = "../internal/console/assets"
	want, got := readFiles(t, built), readFiles(t, embedded)
	for name := range want {
		if !bytes.Equal(got[name], want[name]) {
			t.Errorf("%s is not what web/ makes: run make console", name)
		}
	}
	for name := range got {
		if want[name] == nil {
			t.Errorf("%s is embedded, and nothing in web/ makes it", name)
		}
	}
}

func readFiles(t *testing.T, directory string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(directory)
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string][]byte)
	for _, entry := range entries {
		if files[entry.Name()], err = os.ReadFile(filepath.Join(directory, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// TestConsole clicks through the stories of the console in a browser, against a server.
func TestConsole(t *testing.T) {
	onceOnly(t)
	t.Parallel()
	b := startBrowser(t)
	_, c := startDev(t, "--port", "0")
	s := newSink(t)
	t.Run("signing in", func(t *testing.T) { testSignIn(t, b, c) })
	t.Run("the first visit", func(t *testing.T) { testFirstVisit(t, b, c) })
	t.Run("the log", func(t *testing.T) { testLogView(t, b, c, s) })
	t.Run("dead letters", func(t *testing.T) { testDeadLetters(t, b, c, s) })
	t.Run("lanes", func(t *testing.T) { testLanes(t, b, c, s) })
	t.Run("schedules and groups", func(t *testing.T) { testSchedules(t, b, c, s) })
	t.Run("signatures", func(t *testing.T) { testSignature(t, b, c) })
}

// console returns the address of a view for somebody who is signed in by it.
func (c *client) console(view string) string { return c.base + "/console" + view + "#token=" + c.token }

func testSignIn(t *testing.T, b *browser, c *client) {
	page := b.open(t, desktop, c.base+"/console/logs")
	page.inspect("sign-in")
	page.fill("Token", c.token)
	page.press("Sign in")
	page.sees("defaultUser")
	page.press("Sign out")
	page.sees("posthaste dev prints it")
	if kept := evaluate[int](page, `sessionStorage.length`); kept != 0 {
		t.Errorf("%d things are kept after signing out", kept)
	}
}

// testLogView finds a message that fails among others, follows the log, and publishes
// the message again.
func testLogView(t *testing.T, b *browser, c *client, s *sink) {
	const markup = `<img src=x onerror="document.title='run'"><b>bold</b>`
	settings := map[string]string{"Upstash-Retries": "0", "Upstash-Label": "invoice"}
	for _, kind := range []string{answerOK, answerBroken} {
		if _, err := c.publish(t.Context(), s.url+"/"+kind+"/1", settings, markup); err != nil {
			t.Fatal(err)
		}
	}
	page := b.open(t, desktop, c.console("/logs"))
	page.press("Follow")
	page.sees("Live")
	page.sees("DELIVERED")
	page.sees("500 Internal Server Error")
	page.inspect("logs")

	page.choose("Filter by", "State")
	page.choose("State", "FAILED")
	page.misses("DELIVERED")
	if search := evaluate[string](page, `location.search`); search != "?live=1&state=FAILED" {
		t.Errorf("the address has the filters %q", search)
	}
	page.openFirstRow()
	page.sees("The attempt failed")
	page.sees(markup)
	page.inspect("message")
	if title := evaluate[string](page, `document.title`); title != "Logs · Posthaste" {
		t.Errorf("a payload has changed the title to %q", title)
	}

	first := evaluate[string](page, `document.querySelector(".drawer code").innerText`)
	page.press("Publish again")
	page.until(fmt.Sprintf(`document.querySelector(".drawer code").innerText !== %q && document.querySelector(".timeline .failed") !== null`, first), "see it fail again")
	again := evaluate[string](page, `document.querySelector(".drawer code").innerText`)
	if arrived := s.taken(); len(arrived[again]) != 1 {
		t.Errorf("message %s has arrived %d times, want once", again, len(arrived[again]))
	}
	page.do(chromedp.KeyEvent(kb.Escape))
	page.misses("Timeline")
}
