package postgres_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/index"
	"posthaste/internal/store/postgres"
)

// Trim gives the space of whole days back, and never at the cost of who reads or writes:
// while somebody reads the log it leaves that for another time.
func TestTrimDropsEmptyDays(t *testing.T) {
	const day = 24 * time.Hour
	url := emptyDatabase(t)
	s := open(t, url)
	old, recent := start, start.Add(3*day)
	for _, now := range []time.Time{old, recent} {
		m := newMessage(now)
		if err := acceptOne(t.Context(), s, m); err != nil {
			t.Fatal(err)
		}
		claims, _, err := s.Claim(t.Context(), now, 10)
		if err != nil || len(claims) != 1 {
			t.Fatalf("Claim = %v, %v", claims, err)
		}
		if _, err := s.Settle(t.Context(), now, store.Delivered(claims[0])); err != nil {
			t.Fatal(err)
		}
	}
	horizon := store.Horizon{Log: recent.Truncate(day)}

	reader, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close(t.Context()) }()
	if _, err := reader.Exec(t.Context(), `BEGIN; SELECT count(*) FROM posthaste.events`); err != nil {
		t.Fatal(err)
	}
	if trimmed, err := s.Trim(t.Context(), ann, horizon); err != nil || trimmed.Days != 1 {
		t.Fatalf("Trim = %+v, %v, want a day", trimmed, err)
	}
	oldDay, recentDay := old.Format("20060102"), recent.Format("20060102")
	if days := daysOf(t, reader); !slices.Contains(days, oldDay) {
		t.Errorf("there are partitions for %v: Trim has dropped one that was being read", days)
	}
	if _, err := reader.Exec(t.Context(), `COMMIT`); err != nil {
		t.Fatal(err)
	}
	trimUntilGone(t, s, horizon, reader, oldDay)
	if days := daysOf(t, reader); !slices.Contains(days, recentDay) {
		t.Errorf("there are partitions for %v, want %s", days, recentDay)
	}
	page, err := store.ReadEvents(t.Context(), s, ann, store.EventQuery{High: posthaste.MaxPosition, Limit: 10})
	if err != nil || len(page.Entries) != 3 {
		t.Errorf("%d events are left, %v, want those of the recent message", len(page.Entries), err)
	}
	var lanes int
	if err := reader.QueryRow(t.Context(), `SELECT count(*) FROM posthaste.lanes`).Scan(&lanes); err != nil || lanes > 0 {
		t.Errorf("there are %d lanes, %v, and no message is in one", lanes, err)
	}
}

// A message goes although another one is found by the same term, which begins with the time in milliseconds, and
// has events of later days.
func TestTrimRemovesWhatHasTheSameTerm(t *testing.T) {
	const day = 24 * time.Hour
	s := open(t, emptyDatabase(t))
	now, later := newMessage(start), newMessage(start)
	later.ID = now.ID
	later.ID[len(later.ID)-2]++
	later.NotBefore = start.Add(day)
	if index.Message(now.ID) != index.Message(later.ID) {
		t.Fatal("the messages have different terms")
	}
	for _, m := range []*posthaste.Message{now, later} {
		if err := acceptOne(t.Context(), s, m); err != nil {
			t.Fatal(err)
		}
	}
	for i, m := range []*posthaste.Message{now, later} {
		at := start.Add(time.Duration(i) * day)
		claims, _, err := s.Claim(t.Context(), at, 10)
		if err != nil || len(claims) != 1 || claims[0].Message.ID != m.ID {
			t.Fatalf("Claim = %v, %v, want one", claims, err)
		}
		if _, err := s.Settle(t.Context(), at, store.Delivered(claims[0])); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 {
		if _, err := s.Trim(t.Context(), ann, store.Horizon{Log: start.Add(time.Duration(i+1) * day)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range []*posthaste.Message{now, later} {
		if _, err := s.Message(t.Context(), ann, m.ID); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Message = %v, want that message %s is gone", err, m.ID)
		}
	}
}

// Days go one after the other. A message goes with the last of them that has an event of it: a trim
// that ends between two of them leaves none without its message.
func TestTrimLeavesMessagesOfLaterDays(t *testing.T) {
	const day = 24 * time.Hour
	url := emptyDatabase(t)
	s := open(t, url)
	if err := acceptOne(t.Context(), s, newMessage(start)); err != nil {
		t.Fatal(err)
	}
	next := start.Add(day)
	claims, _, err := s.Claim(t.Context(), next, 10)
	if err != nil || len(claims) != 1 {
		t.Fatalf("Claim = %v, %v", claims, err)
	}
	if _, err := s.Settle(t.Context(), next, store.Delivered(claims[0])); err != nil {
		t.Fatal(err)
	}
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(t.Context()) }()
	if _, err := db.Exec(t.Context(), `
		CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not now'; END $$;
		CREATE TRIGGER refuse BEFORE DELETE ON posthaste.events_`+next.Format("20060102")+` FOR EACH ROW EXECUTE FUNCTION refuse()`); err != nil {
		t.Fatal(err)
	}
	horizon := store.Horizon{Log: start.Add(3 * day)}
	if _, err := s.Trim(t.Context(), ann, horizon); err == nil || !strings.Contains(err.Error(), "not now") {
		t.Fatalf("Trim = %v, want the error of the trigger", err)
	}
	left := func() int {
		page, err := store.ReadEvents(t.Context(), s, ann, store.EventQuery{High: posthaste.MaxPosition, Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		return len(page.Entries)
	}
	if n := left(); n == 0 {
		t.Error("the events of the second day have no message any more")
	}
	if report, err := postgres.Check(t.Context(), url); err != nil || len(report.Problems) > 0 {
		t.Errorf("Check: %v, %q", err, report.Problems)
	}
	if _, err := db.Exec(t.Context(), `DROP FUNCTION refuse CASCADE`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Trim(t.Context(), ann, horizon); err != nil {
		t.Fatal(err)
	}
	var messages int
	if err := db.QueryRow(t.Context(), `SELECT count(*) FROM posthaste.messages`).Scan(&messages); err != nil || messages > 0 || left() > 0 {
		t.Errorf("%d messages and %d events are left, %v", messages, left(), err)
	}
}

// daysOf returns the days for which the log has partitions.
func daysOf(t *testing.T, conn *pgx.Conn) []string {
	t.Helper()
	found, err := conn.Query(t.Context(), `
		SELECT substr(relname, length('events_') + 1) FROM pg_class JOIN pg_inherits ON inhrelid = oid
		WHERE inhparent = 'posthaste.events'::regclass`)
	if err != nil {
		t.Fatal(err)
	}
	days, err := pgx.CollectRows(found, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return days
}

// trimUntilGone trims until a day has no partition any more. A table that something reads is
// left to the next time, and the database may be cleaning up at any moment.
func trimUntilGone(t *testing.T, s *ruled, horizon store.Horizon, conn *pgx.Conn, day string) {
	t.Helper()
	const patience = time.Minute
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		if _, err := s.Trim(t.Context(), ann, horizon); err != nil {
			t.Fatal(err)
		}
		days := daysOf(t, conn)
		if !slices.Contains(days, day) {
			return
		}
		if time.Since(began) > patience {
			t.Fatalf("there are partitions for %v", days)
		}
	}
}

// Two nodes that trim the same day, one of which finds that the other has taken what it is
// about to remove, leave nothing of it.
func TestTwoNodesTrimTheSameDay(t *testing.T) {
	const day, messages = 24 * time.Hour, 300
	url := emptyDatabase(t)
	nodes := []*ruled{open(t, url), open(t, url)}
	for range messages {
		if err := acceptOne(t.Context(), nodes[0], newMessage(start)); err != nil {
			t.Fatal(err)
		}
	}
	accept(t, nodes[0], start.Add(3*day))
	horizon := store.Horizon{Log: start.Add(2 * day).Truncate(day)}
	var trimming sync.WaitGroup
	for _, s := range nodes {
		trimming.Go(func() {
			if _, err := s.Trim(t.Context(), ann, horizon); err != nil {
				t.Error(err)
			}
		})
	}
	trimming.Wait()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	trimUntilGone(t, nodes[0], horizon, conn, start.Format("20060102"))
}

// A day goes with whatever is left in it that finds events which are gone.
func TestPostingsOfNoEventGoWithTheirDay(t *testing.T) {
	const day = 24 * time.Hour
	url := emptyDatabase(t)
	s := open(t, url)
	settle(t, s, store.Delivered(claimOne(t, s, accept(t, s, start))))
	accept(t, s, start.Add(3*day))
	execute(t, url, `DELETE FROM posthaste.events WHERE first < $1`, int64(posthaste.FirstPosition(start.Add(day))))
	execute(t, url, `DELETE FROM posthaste.kept WHERE day > 0 AND day < $1`, start.Add(day).UnixMilli())
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	trimUntilGone(t, s, store.Horizon{Log: start.Add(2 * day).Truncate(day)}, conn, start.Format("20060102"))
}
