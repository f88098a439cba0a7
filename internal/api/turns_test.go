package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

// oneTurn is a Gate for one at a time that says when it is used wrongly.
type oneTurn struct {
	t       *testing.T
	held    bool
	entered int
	refuse  int // the turn with this number is not given; 0: none
}

var errNoTurn = errors.New("no turn")

func (g *oneTurn) Enter(context.Context, string, int64) error {
	if g.held {
		g.t.Error("a turn is asked for by who has it")
	}
	if g.entered++; g.entered == g.refuse {
		return errNoTurn
	}
	g.held = true
	return nil
}

func (g *oneTurn) Leave(string, int64) {
	if !g.held {
		g.t.Error("a turn is given back by who does not have it")
	}
	g.held = false
}

// slowClient takes what is written outside of turns, and breaks where it is told.
type slowClient struct {
	gate   *oneTurn
	got    bytes.Buffer
	writes int
	broken int // the write with this number fails; 0: none
}

var errBroken = errors.New("broken pipe")

func (c *slowClient) Write(p []byte) (int, error) {
	if c.gate.held {
		c.gate.t.Error("a client is waited for in a turn")
	}
	if c.writes++; c.writes == c.broken {
		return 0, errBroken
	}
	return c.got.Write(p)
}

// TestTurnsEndWhileAClientIsWaitedFor writes three pieces and a bit.
func TestTurnsEndWhileAClientIsWaitedFor(t *testing.T) {
	failed := errors.New("cannot be encoded")
	tests := []struct {
		name           string
		refuse, broken int
		fails          error // of the work
		want           error
	}{
		{name: "all is written"},
		{name: "the first turn is refused", refuse: 1, want: errNoTurn},
		{name: "a later turn is refused", refuse: 3, want: errNoTurn},
		{name: "the client goes in the middle", broken: 2, want: errBroken},
		{name: "the client goes at the end", broken: 4, want: errBroken},
		{name: "the work fails", fails: failed, want: failed},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			gate := &oneTurn{t: t, refuse: test.refuse}
			client := &slowClient{gate: gate, broken: test.broken}
			line := strings.Repeat("x", pieceBytes/4)
			err := turn{t.Context(), gate, "ann"}.write(client, func(w io.Writer) error {
				for range 13 {
					if _, err := io.WriteString(w, line); err != nil {
						return err
					}
				}
				return test.fails
			})
			if !errors.Is(err, test.want) {
				t.Errorf("write = %v, want %v", err, test.want)
			}
			if gate.held {
				t.Error("the turn is held for ever")
			}
			if test.want == nil && client.got.String() != strings.Repeat(line, 13) {
				t.Errorf("%d bytes were written, want %d", client.got.Len(), 13*len(line))
			}
		})
	}
}

// TestTurnEndsWithAPanic has a bug in what writes a page not stop all others.
func TestTurnEndsWithAPanic(t *testing.T) {
	gate := &oneTurn{t: t}
	func() {
		defer func() { _ = recover() }()
		_ = turn{t.Context(), gate, "ann"}.write(io.Discard, func(io.Writer) error { panic("a bug") })
	}()
	if gate.held {
		t.Error("the turn is held for ever")
	}
}
