package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// lab is where scenarios do their work: a directory for data, a destination, and
// the programs to be measured.
type lab struct {
	options  Options
	dir      string // for everything the programs write
	token    string // of the first user
	password string // of others
	sink     *sink
	places   int // directories handed out so far
}

func newLab(options Options) (*lab, error) {
	dir, err := os.MkdirTemp(options.Dir, "posthaste-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for data: %w", err)
	}
	s, err := newSink(options.Hosts)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s.use(newAccount())
	return &lab{options: options, dir: dir, token: newToken(), password: rand.Text(), sink: s}, nil
}

// newToken makes the token of a user of its own.
func newToken() string { return tokenOf("bench", rand.Text()) }

func tokenOf(user, password string) string {
	text, _ := json.Marshal(struct{ UserID, Password string }{user, password}) // two texts always fit
	return base64.StdEncoding.EncodeToString(text)
}

func (l *lab) close() {
	l.sink.close()
	_ = os.RemoveAll(l.dir) // temporary; nothing to be done about it
}

const (
	relayName  = "relay"
	beforeName = "before"
)

// relay is the bare relay, which is this program.
func (l *lab) relay() program {
	return program{relayName, func(listen, _ string) []string {
		return []string{"--relay", listen}
	}}
}

// server is Posthaste as it would be used: with a durable store and the defaults
// of every setting but these, and those it is given.
func (l *lab) server(settings ...string) program {
	return program{"posthaste", func(listen, data string) []string {
		return append([]string{"serve", "--listen", listen, "--data", data, "--token", l.token, "--destinations", "any"}, settings...)
	}}
}

// baseline is what Posthaste is compared with: an earlier build of it or, where none is
// given, the relay.
func (l *lab) baseline() program {
	if l.options.Before == "" {
		return l.relay()
	}
	return program{beforeName, l.server().args}
}

// place makes a directory for a program of one round.
func (l *lab) place() (string, error) {
	l.places++
	dir := filepath.Join(l.dir, strconv.Itoa(l.places))
	return dir, os.Mkdir(dir, 0o700)
}

// start starts a program in a directory.
func (l *lab) start(ctx context.Context, p program, dir string) (*child, error) {
	executable := l.options.Executable
	switch p.name {
	case relayName:
		executable = l.options.Self
	case beforeName:
		executable = l.options.Before
	}
	return spawn(ctx, executable, p, dir)
}

// address is where a program takes messages for the sink.
func (l *lab) address(c *child, delay time.Duration) address {
	return address{
		host:         c.host,
		token:        l.token,
		destinations: []string{l.sink.url()},
		delay:        delay,
		size:         l.options.Size,
	}
}

// patience is how long a message may be on its way while no other arrives. A
// first retry comes sooner.
const patience = 20 * time.Second

// deliver applies a load to a program and waits for its messages to arrive. The
// ledger stays in use, so that it also sees what comes late or twice.
func (l *lab) deliver(ctx context.Context, c *child, work load) (*account, error) {
	book := newAccount()
	l.sink.use(book)
	if err := work.apply(ctx, l.address(c, 0), book); err != nil {
		return nil, fmt.Errorf("%s: %w%s", c.name, err, c.lastWords())
	}
	return book, book.drain(ctx, patience)
}

// note tells of the progress.
func (l *lab) note(format string, args ...any) {
	if l.options.Progress != nil {
		_, _ = fmt.Fprintf(l.options.Progress, format+"\n", args...)
	}
}
