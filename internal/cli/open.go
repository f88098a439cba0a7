package cli

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"strings"
)

// openCommand opens the console in a browser.
type openCommand struct {
	oneOutput
	connection
}

// Run opens the console, signed in, and prints its URL where no browser can be started.
func (c *openCommand) Run(t terminal) error {
	server, err := c.server()
	if err != nil {
		return err
	}
	target := consoleURL(strings.TrimRight(server.URL, "/"), server.Token)
	if c.Output == "json" {
		return writeJSON(t.Out, map[string]string{"url": target})
	}
	if !isTerminal(t.Out) || openBrowser(target) != nil {
		return writeLine(t.Out, "%s", target)
	}
	return writeLine(t.Out, "Opened the console of %s in a browser.", server.URL)
}

// consoleURL returns where the console is, signed in. A fragment is not sent to anybody.
func consoleURL(server, token string) string {
	return server + "/console#token=" + strings.ReplaceAll(token, "+", "%2B") // the only sign of base64 that means another there
}

// openBrowser shows a URL in the browser of the desktop.
func openBrowser(target string) error {
	name, args := "xdg-open", []string{target}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", target}
	}
	command := exec.Command(name, args...)
	if err := command.Start(); err != nil {
		return fmt.Errorf("start a browser: %w", err)
	}
	go func() { _ = command.Wait() }()
	return nil
}

// openOnDemand opens a URL whenever a line with an o is read. A program in the background
// that reads from its terminal would be stopped: that is an end of the lines instead.
func openOnDemand(t terminal, in io.Reader, target string) {
	dontStopForTerminal()
	for lines := bufio.NewScanner(in); lines.Scan(); {
		if strings.TrimSpace(lines.Text()) != "o" {
			continue
		}
		if err := openBrowser(target); err != nil {
			_ = writeLine(t.Err, "posthaste: %v; open %s", err, target)
		}
	}
}
