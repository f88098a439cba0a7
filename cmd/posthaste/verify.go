package main

import (
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
	Signature string `arg:"" help:"Value of the header Upstash-Signature of the delivery."`

	Destination string `env:"-" placeholder:"URL" help:"URL of the delivery as it was published. It is not compared unless given."`
	Body        string `env:"-" xor:"body" placeholder:"TEXT" help:"Body of the delivery, byte for byte; empty unless given."`
	BodyFile    string `env:"-" xor:"body" placeholder:"FILE" help:"File with the body, - for the standard input."`

	CurrentSigningKey string `env:"POSTHASTE_CURRENT_SIGNING_KEY,QSTASH_CURRENT_SIGNING_KEY" placeholder:"KEY" help:"The current signing key."`
	NextSigningKey    string `env:"POSTHASTE_NEXT_SIGNING_KEY,QSTASH_NEXT_SIGNING_KEY" placeholder:"KEY" help:"The next signing key."`

	At        moment `env:"-" placeholder:"TIME" help:"When it was received, now unless given: Unix milliseconds, 2006-01-02T15:04:05Z, or how long ago, such as 15m."`
	Tolerance span   `env:"-" default:"0s" help:"How far the clocks may differ."`
	oneOutput
}

// Validate returns a sentence about the first setting that is wrong.
func (c *verifyCommand) Validate() error {
	if c.CurrentSigningKey == "" && c.NextSigningKey == "" {
		return posthaste.Invalidf("there is no key to verify with: give --current-signing-key or --next-signing-key")
	}
	return nil
}

// checkView is the JSON form of a check.
type checkView struct {
	Check   string `json:"check"`
	Holds   bool   `json:"holds"`
	Problem string `json:"problem,omitempty"`
}

// Run prints every check and fails unless all hold.
func (c *verifyCommand) Run(t terminal) error {
	body, err := c.readBody()
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
	checks, err := verifier.Explain(strings.TrimSpace(c.Signature), c.Destination, body, at)
	if err != nil {
		return err
	}
	if err := c.print(t.Out, checks); err != nil {
		return err
	}
	for _, check := range checks {
		if check.Problem != "" {
			return fmt.Errorf("the signature does not hold: %s", check.Problem)
		}
	}
	return nil
}

func (c *verifyCommand) readBody() ([]byte, error) {
	switch c.BodyFile {
	case "":
		return []byte(c.Body), nil
	case "-":
		return io.ReadAll(os.Stdin)
	default:
		return os.ReadFile(c.BodyFile)
	}
}

func (c *verifyCommand) print(out io.Writer, checks []sign.Check) error {
	if c.Output == "json" {
		views := make([]checkView, len(checks))
		for i, check := range checks {
			views[i] = checkView{check.Name, check.Problem == "", check.Problem}
		}
		return writeJSON(out, map[string]any{"checks": views})
	}
	rows := make([][]cell, len(checks))
	for i, check := range checks {
		rows[i] = []cell{{text: check.Name}, verdict(check)}
	}
	return writeRows(&table{out: out, coloured: hasColours(out), columns: []column{{"CHECK", 5}, {name: "RESULT"}}}, rows)
}

func verdict(check sign.Check) cell {
	if check.Problem == "" {
		return cell{"holds", good}
	}
	return cell{check.Problem, bad}
}
