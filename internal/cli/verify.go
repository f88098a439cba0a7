package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/sign"
)

// verifyCommand says what is wrong with a signature that a receiver refuses. It asks
// no server: the keys are given.
type verifyCommand struct {
	Signature string `arg:"" optional:"" help:"Value of the delivery's Upstash-Signature header."`

	Request     string `env:"-" placeholder:"FILE" help:"File with the whole request as received: headers, an empty line and the body. Replaces the signature and --body; - reads standard input."`
	Destination string `env:"-" placeholder:"URL" help:"Destination URL as it was published. Without it and without a Host header in --request, the URL is not checked."`
	Body        string `env:"-" xor:"body" placeholder:"TEXT" help:"Body of the delivery, byte for byte. Default: empty."`
	BodyFile    string `env:"-" xor:"body" placeholder:"FILE" help:"File with the body; - reads standard input."`

	CurrentSigningKey string `env:"POSTHASTE_CURRENT_SIGNING_KEY,QSTASH_CURRENT_SIGNING_KEY" placeholder:"KEY" help:"Current signing key."`
	NextSigningKey    string `env:"POSTHASTE_NEXT_SIGNING_KEY,QSTASH_NEXT_SIGNING_KEY" placeholder:"KEY" help:"Next signing key."`

	At        timeFlag `env:"-" placeholder:"TIME" help:"Time the delivery was received: Unix milliseconds, 2006-01-02 15:04 (local time), 2006-01-02T15:04:05Z, or an age such as 15m. Default: now."`
	Tolerance span     `env:"-" default:"0s" help:"Allowed clock difference."`
	oneOutput
}

// Validate returns a sentence about the first setting that is wrong.
func (c *verifyCommand) Validate() error {
	if c.CurrentSigningKey == "" && c.NextSigningKey == "" {
		return posthaste.Invalidf("there is no key to verify with: give --current-signing-key or --next-signing-key")
	}
	switch {
	case c.Signature == "" && c.Request == "":
		return posthaste.Invalidf("there is nothing to verify: give the signature, or --request FILE")
	case c.Request != "" && (c.Signature != "" || c.Body != "" || c.BodyFile != ""):
		return posthaste.Invalidf("request %q contains the signature and the body: leave the other flags out", c.Request)
	}
	return nil
}

// received returns the delivery to verify.
func (c *verifyCommand) received() (r capture, err error) {
	if c.Request == "" {
		body, err := c.readBody()
		return capture{signature: c.Signature, url: c.Destination, body: body}, err
	}
	text, err := readAll(c.Request)
	if err == nil {
		r, err = readCapture(text)
	}
	r.url = cmp.Or(c.Destination, r.url)
	return r, err
}

// checkView is the JSON form of a check.
type checkView struct {
	Check   string `json:"check"`
	Holds   *bool  `json:"holds"` // null: it cannot be checked
	Problem string `json:"problem,omitempty"`
	Unknown string `json:"unknown,omitempty"` // why it cannot be checked
}

// Run prints every check and fails unless all hold.
func (c *verifyCommand) Run(t terminal) error {
	r, err := c.received()
	if err != nil {
		return err
	}
	verifier := sign.Verifier{
		Keys:      sign.KeyPair{Current: c.CurrentSigningKey, Next: c.NextSigningKey},
		Tolerance: time.Duration(c.Tolerance),
	}
	at := c.At.Time
	if at.IsZero() {
		at = time.Now()
	}
	checks, err := verifier.Explain(strings.TrimSpace(r.signature), r.url, r.body, at)
	if err != nil {
		return err
	}
	if err := c.print(t.Out, checks); err != nil {
		return err
	}
	for _, check := range checks {
		if check.Problem != "" {
			return fmt.Errorf("the signature is not valid: %s", check.Problem)
		}
	}
	return nil
}

func (c *verifyCommand) readBody() ([]byte, error) {
	if c.BodyFile == "" {
		return []byte(c.Body), nil
	}
	return readAll(c.BodyFile)
}

// readAll reads a file, - for the standard input.
func readAll(file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(os.Stdin)
	}
	return os.ReadFile(file)
}

func (c *verifyCommand) print(out io.Writer, checks []sign.Check) error {
	if c.Output == "json" {
		views := make([]checkView, len(checks))
		for i, check := range checks {
			views[i] = checkView{Check: check.Name, Problem: check.Problem, Unknown: check.Unknown}
			if check.Unknown == "" {
				views[i].Holds = new(check.Problem == "")
			}
		}
		return writeJSON(out, map[string]any{"checks": views})
	}
	rows := make([][]cell, len(checks))
	for i, check := range checks {
		rows[i] = []cell{{text: check.Name}, verdict(check)}
	}
	return columns{{"CHECK", 9}, {name: "RESULT"}}.writeRows(out, rows)
}

func verdict(check sign.Check) cell {
	switch {
	case check.Problem != "":
		return cell{text: check.Problem, colour: bad}
	case check.Unknown != "":
		return cell{text: "not checked: " + check.Unknown, colour: waiting}
	default:
		return cell{text: "ok", colour: good}
	}
}
