package pgtest

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
)

// ProcessorTime returns how long the processes of a database's connections have run. It returns an error if
// they are not on this machine, or it does not tell.
func ProcessorTime(ctx context.Context, url string) (sum time.Duration, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	rows, err := conn.Query(ctx, `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	if err != nil {
		return 0, err
	}
	processes, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return 0, err
	}
	for _, process := range processes {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", process)) // nanoseconds first
		if err != nil {
			return 0, err
		}
		var ran int64
		if _, err := fmt.Sscan(string(text), &ran); err != nil {
			return 0, err
		}
		sum += time.Duration(ran)
	}
	return sum, nil
}
