package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
)

// A long queue is deleted in commits of a bounded size, so that the user's turn is free in
// between and nothing has to fit into memory.
func TestALongQueueIsDeletedInSteps(t *testing.T) {
	const count, atOnce = 1201, 500
	url := emptyDatabase(t)
	s := open(t, url)
	messages := make([]*posthaste.Message, count)
	for i := range messages {
		messages[i] = newMessage(start)
		messages[i].Queue = "q"
	}
	if _, err := s.Accept(t.Context(), start, []store.Submission{{Messages: messages}}); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteQueue(t.Context(), start, ann, "q"); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	var ended, largest int
	err = conn.QueryRow(t.Context(), `
		SELECT sum(n), max(n) FROM (SELECT count(*) AS n FROM posthaste.ended GROUP BY xmin::text) AS commits`).Scan(&ended, &largest)
	if err != nil || ended != count || largest > atOnce {
		t.Errorf("%d messages are cancelled, %d of them in one commit, %v; want %d, at most %d in one", ended, largest, err, count, atOnce)
	}
}
