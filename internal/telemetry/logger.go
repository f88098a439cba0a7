package telemetry

import (
	"io"
	"log/slog"
)

// Format is how log lines are written.
type Format string

// The formats of log lines.
const (
	FormatText Format = "text" // key=value, for people
	FormatJSON Format = "json" // one object a line, for programs
)

// NewLogger returns a logger that writes lines of at least the level.
func NewLogger(w io.Writer, level slog.Level, format Format) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if format == FormatJSON {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
