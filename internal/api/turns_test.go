package api

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// oneTurn gives turns one at a time, and says when it is used wrongly.
type oneTurn struct {
	t      *testing.T
	held   bool
	given  int
	refuse int // the turn with this number is not given; 0: none
}

var errNoTurn = errors.New("no turn")

func (o *oneTurn) do(work func() error) error {
	if o.held {
		o.t.Error("a turn is asked for by who has it")
	}
	if o.given++; o.given == o.refuse {
		return errNoTurn
	}
	o.held = true
	defer func() { o.held = false }()
	return work()
}

// slowClient takes what is written outside of turns, and breaks where it is told.
type slowClient struct {
	turns  *oneTurn
	got    bytes.Buffer
	writes int
	broken int // the write with this number fails; 0: none
}

var errBroken = errors.New("broken pipe")

func (c *slowClient) Write(p []byte) (int, error) {
	if c.turns.held {
		c.turns.t.Error("a client is waited for in a turn")
	}
	if c.writes++; c.writes == c.broken {
		return 0, errBroken
	}
	return c.got.Write(p)
}

// TestTurnsEndWhileAClientIsWaitedFor writes three pieces and a bit.
func TestTurnsEndWhileAClientIsWaitedFor(t *testing.T) {
	tests := []struct {
		name           string
		refuse, broken int
		want           error
	}{
		{name: "all is written"},
		{name: "the first turn is refused", refuse: 1, want: errNoTurn},
		{name: "a later turn is refused", refuse: 3, want: errNoTurn},
		{name: "the client goes in the middle", broken: 2, want: errBroken},
		{name: "the client goes at the end", broken: 4, want: errBroken},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			turns := &oneTurn{t: t, refuse: test.refuse}
			client := &slowClient{turns: turns, broken: test.broken}
			line := strings.Repeat("x", pieceBytes/4)
			err := turn(turns.do).write(client, list{length: 13, item: func(int) []byte {
				if !turns.held {
					t.Error("an item is encoded outside of turns")
				}
				return []byte(line)
			}})
			if !errors.Is(err, test.want) {
				t.Errorf("write = %v, want %v", err, test.want)
			}
			if test.want == nil && client.got.String() != strings.Repeat(line, 13) {
				t.Errorf("%d bytes were written, want %d", client.got.Len(), 13*len(line))
			}
		})
	}
}

// TestList has what stands around the items.
func TestList(t *testing.T) {
	item := strings.Repeat("x", pieceBytes)
	tests := map[string]struct {
		length int
		want   string
	}{
		"no item":    {0, "[]"},
		"one item":   {1, "[" + item + "]"},
		"two pieces": {2, "[" + item + "," + item + "]"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			l := list{head: "[", comma: ",", tail: "]", length: test.length, item: func(int) []byte { return []byte(item) }}
			if err := turn((&oneTurn{t: t}).do).write(&got, l); err != nil {
				t.Fatal(err)
			}
			if got.String() != test.want {
				t.Errorf("wrote %d bytes, want %d", got.Len(), len(test.want))
			}
		})
	}
}
