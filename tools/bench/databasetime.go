package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
)

// databaseTime returns how long the processes of a database's connections have run, 0 if they are not on
// this machine or it does not tell.
func databaseTime(ctx context.Context, database string) (sum time.Duration) {
	db, err := pgx.Connect(ctx, database)
	if err != nil {
		return 0
	}
	defer func() { _ = db.Close(context.WithoutCancel(ctx)) }()
	rows, err := db.Query(ctx, `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
	if err != nil {
		return 0
	}
	processes, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return 0
	}
	for _, process := range processes {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", process)) // nanoseconds first
		if err != nil {
			return 0
		}
		var ran int64
		if _, err := fmt.Sscan(string(text), &ran); err != nil {
			return 0
		}
		sum += time.Duration(ran)
	}
	return sum
}
