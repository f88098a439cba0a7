package bench

import (
	"bytes"
	"context"
	"fmt"
	"time"
)

// exportAll notes how fast a whole log is exported, and how much memory the server has
// meanwhile, at most.
func (c *logStore) exportAll(ctx context.Context, l *lab) error {
	const pause = 20 * time.Millisecond
	var most int64
	watch := func(ctx context.Context) error {
		for sleep(ctx, pause) {
			if size, ok := residentMemory(c.server.command.Process.Pid); ok {
				most = max(most, size)
			}
		}
		return nil
	}
	var exported lineCount
	began := time.Now()
	err := meanwhile(ctx, watch, func() error {
		return readLog(ctx, c.server.host+messageLog, l.token, mediaLines, nil, &exported)
	})
	took := time.Since(began)
	if err != nil {
		return fmt.Errorf("%s, export: %w%s", c.name, err, c.server.lastWords())
	}
	if least := 3 * c.history.total; int(exported) < least {
		return fmt.Errorf("%s: %d entries were exported, at least %d were expected", c.name, exported, least)
	}
	export := []reading{measured("exported as a whole", "entries/s", perSecond(int(exported), took))}
	if most > 0 { // else the system does not tell
		export = append(export, measured("resident memory meanwhile, at most", "MB", float64(most)/megabyte))
	}
	c.rounds = append(c.rounds, export)
	return nil
}

// lineCount counts the lines that are written to it.
type lineCount int

func (n *lineCount) Write(p []byte) (int, error) {
	*n += lineCount(bytes.Count(p, []byte("\n")))
	return len(p), nil
}
