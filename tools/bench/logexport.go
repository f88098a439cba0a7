package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"
)

// exportTime is for how long a log is exported at most: one of a hundred million entries would
// take the better part of an hour.
const exportTime = 20 * time.Second

// export notes how fast a log is exported, and how much memory the server has meanwhile, at
// most, which has done little else before.
func (c *logStore) export(ctx context.Context, l *lab) error {
	const pause = 20 * time.Millisecond
	var most int64
	watch := func(ctx context.Context) error {
		for more := true; more; more = sleep(ctx, pause) {
			if size, ok := residentMemory(c.server.command.Process.Pid); ok {
				most = max(most, size)
			}
		}
		return nil
	}
	exported := &exportedLines{until: time.Now().Add(exportTime)}
	began := time.Now()
	err := meanwhile(ctx, watch, func() error {
		return readLog(ctx, c.server.host+messageLog, l.token, mediaLines, nil, exported)
	})
	took := time.Since(began)
	switch least := 3 * c.history.total; {
	case errors.Is(err, errExportTime):
	case err != nil:
		return fmt.Errorf("%s, export: %w%s", c.name, err, c.server.lastWords())
	case exported.lines < least:
		return fmt.Errorf("%s: %d entries were exported, at least %d were expected", c.name, exported.lines, least)
	}
	export := []reading{measured("exported", "entries/s", perSecond(exported.lines, took))}
	if most > 0 { // else the system does not tell
		export = append(export, measured("resident memory meanwhile, at most", "MB", float64(most)/megabyte))
	}
	c.rounds = append(c.rounds, export)
	return nil
}

// exportedLines counts the lines that are written to it, until a time.
type exportedLines struct {
	until time.Time
	lines int
}

var errExportTime = errors.New("the export took as long as it may")

func (e *exportedLines) Write(p []byte) (int, error) {
	e.lines += bytes.Count(p, []byte("\n"))
	if time.Now().After(e.until) {
		return len(p), errExportTime
	}
	return len(p), nil
}
