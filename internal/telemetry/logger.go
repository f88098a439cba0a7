package telemetry

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"
)

// Format is how log lines are written.
type Format string

// The formats of log lines.
const (
	FormatText Format = "text" // key=value, for people
	FormatJSON Format = "json" // one object a line, for programs
)

// NewLogger returns a logger that writes lines of at least the level. The lines
// of attempts, by far the most, are gathered for a moment; any other line is
// written at once, after all that came before it.
func NewLogger(w io.Writer, level slog.Level, format Format) *slog.Logger {
	gathered := &gatherer{w: w}
	options := &slog.HandlerOptions{Level: level}
	if format == FormatJSON {
		return slog.New(gatheringHandler{slog.NewJSONHandler(gathered, options), gathered})
	}
	return slog.New(gatheringHandler{slog.NewTextHandler(gathered, options), gathered})
}

// gatheringHandler decides which lines may wait.
type gatheringHandler struct {
	slog.Handler
	gathered *gatherer
}

// Handle implements slog.Handler.
func (h gatheringHandler) Handle(ctx context.Context, line slog.Record) error {
	err := h.Handler.Handle(ctx, line)
	if line.Message != attemptFinished || line.Level >= slog.LevelWarn {
		h.gathered.flush()
	}
	return err
}

// WithAttrs implements slog.Handler.
func (h gatheringHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return gatheringHandler{h.Handler.WithAttrs(attrs), h.gathered}
}

// WithGroup implements slog.Handler.
func (h gatheringHandler) WithGroup(name string) slog.Handler {
	return gatheringHandler{h.Handler.WithGroup(name), h.gathered}
}

// attemptFinished is the message of the canonical line of an attempt.
const attemptFinished = "attempt.finished"

// How long a line may wait, and how many bytes of them.
const (
	gatherFor  = 100 * time.Millisecond
	gatherMost = 32 << 10
)

// gatherer writes lines in pieces of many: a system call a line is a noticeable
// part of what a delivery costs.
type gatherer struct {
	w     io.Writer
	mu    sync.Mutex
	lines []byte
}

func (g *gatherer) Write(line []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.lines) == 0 {
		time.AfterFunc(gatherFor, g.flush)
	}
	g.lines = append(g.lines, line...)
	if len(g.lines) >= gatherMost {
		g.writeOut()
	}
	return len(line), nil
}

func (g *gatherer) flush() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.writeOut()
}

// writeOut has nowhere to report an error of the log to.
func (g *gatherer) writeOut() {
	if len(g.lines) > 0 {
		_, _ = g.w.Write(g.lines)
		g.lines = g.lines[:0]
	}
}
