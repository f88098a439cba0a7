package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/store"
	"posthaste/internal/store/postgres"
	"posthaste/internal/store/storetest"
)

// wantWhole fails a test if a check of a database finds anything.
func wantWhole(t testing.TB, urls ...string) postgres.Report {
	t.Helper()
	report, err := postgres.Check(context.Background(), urls...) // also when the test has ended
	if err != nil || len(report.Problems) > 0 {
		t.Errorf("Check = %v, %q; want that it finds nothing", err, report.Problems)
	}
	return report
}

// fillAll makes rows in every table, on two days of the log.
func fillAll(t *testing.T, s *ruled) {
	t.Helper()
	failing, next := newMessage(start), start.Add(10*time.Minute)
	failing.Labels = []string{"label"}
	submission := store.Submission{Messages: []*posthaste.Message{failing}, DedupKey: "once"}
	if _, err := s.Accept(t.Context(), start, []store.Submission{submission}); err != nil {
		t.Fatal(err)
	}
	settle(t, s, store.Failed(claimOne(t, s, failing), posthaste.Outcome{Error: "broken", Response: &posthaste.Response{Status: 500}}))
	accept(t, s, next)
	limited := newMessage(next)
	limited.FlowControl = posthaste.FlowControl{Key: "key", FlowLimit: posthaste.FlowLimit{Parallelism: 1}}
	queued := newMessage(next)
	queued.Queue = "q"
	if err := errors.Join(
		acceptOne(t.Context(), s, queued),
		s.UpdateURLGroup(t.Context(), start, ann, "g", func(g *posthaste.URLGroup) error {
			g.Endpoints = []posthaste.Endpoint{{URL: "http://e.example/"}}
			return nil
		}),
		s.UpdateSchedule(t.Context(), start, ann, "s", func(s *posthaste.Schedule) error { s.NextAt = start; return nil }),
		s.PutAction(t.Context(), &posthaste.BulkAction{ID: "act", User: ann, CreatedAt: start}),
		s.Transact(t.Context(), start, ann, storetest.TwoRuns(ann, start, newMessage)),
	); err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutSecretIfAbsent(t.Context(), "secret", "value"); err != nil {
		t.Fatal(err)
	}
	if claims, _, err := s.Claim(t.Context(), next, 10); err != nil || len(claims) == 0 {
		t.Fatalf("Claim = %v, %v, want some", claims, err)
	}
	if err := acceptOne(t.Context(), s, limited); err != nil { // which waits
		t.Fatal(err)
	}
	if err := s.CompleteIndex(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestCheckFindsNothingWrong(t *testing.T) {
	url := emptyDatabase(t)
	fillAll(t, open(t, url))
	report := wantWhole(t, url)
	for what, n := range map[string]int64{
		"rows": report.Rows, "messages": report.Messages, "waiting messages": report.Waiting, "events": report.Events,
		"dead letters": report.DeadLetters, "runs": report.Runs, "failed runs": report.FailedRuns,
	} {
		if n == 0 {
			t.Errorf("Check looked at no %s: %+v", what, report)
		}
	}
}

func TestCheckOfHalfACopy(t *testing.T) {
	url := emptyDatabase(t)
	if _, err := open(t, url).PutSecretIfAbsent(t.Context(), store.CopyMark, store.CopyRunning); err != nil {
		t.Fatal(err)
	}
	report, err := postgres.Check(t.Context(), url)
	if err != nil || !slices.Equal(report.Problems, []string{store.ErrHalfCopied.Error()}) {
		t.Errorf("Check = %q, %v, want %v", report.Problems, err, store.ErrHalfCopied)
	}
}

// A check is of one moment, whatever is accepted, delivered and removed meanwhile.
func TestCheckBesideAServer(t *testing.T) {
	url := emptyDatabase(t)
	s := open(t, url)
	for range 200 {
		accept(t, s, start.Add(-24*time.Hour))
	}
	var serving sync.WaitGroup
	done := make(chan struct{})
	serving.Go(func() {
		for range 30 {
			if err := deliverOne(t, s); err != nil {
				t.Error(err)
			}
		}
	})
	serving.Go(func() {
		if _, err := s.Trim(t.Context(), ann, store.Horizon{Log: start}); err != nil {
			t.Error(err)
		}
	})
	go func() {
		serving.Wait()
		close(done)
	}()
	for serves := true; serves; {
		wantWhole(t, url)
		select {
		case <-done:
			serves = false
		default:
		}
	}
}

func TestCheckRefusesADatabaseOfAnother(t *testing.T) {
	url := cluster.Database(t)
	if _, err := postgres.Check(t.Context(), url); err == nil || !strings.Contains(err.Error(), "no server has ever used this database") {
		t.Errorf("Check of an empty database = %v, want that it is refused", err)
	}
}

// TestCheckMissesNoRow deletes one row of each table. Check notices, unless nothing else
// speaks of what was deleted.
func TestCheckMissesNoRow(t *testing.T) {
	if testing.Short() {
		t.Skip("sequential: nothing for the race detector")
	}
	url := emptyDatabase(t)
	fillAll(t, open(t, url))
	d := newDamager(t, url)
	alone := []string{
		"responses", // of events, which need not have one
		"jobs",      // in the schema when somebody does one
		"records",   // as the last one is
		"blocked",   // of lanes, which need not be
		"placement", // of one of several databases
		"outcomes",  // of changes in several databases
	}
	for _, table := range d.tables() {
		problems := d.with(table, `DELETE FROM posthaste.`+table+` WHERE (tableoid, ctid) IN (
			SELECT tableoid, ctid FROM posthaste.`+table+` ORDER BY tableoid DESC, ctid DESC LIMIT 1)`)
		if noticed := len(problems) > 0; noticed == slices.Contains(alone, table) {
			t.Errorf("without a row of %s: problems %q", table, problems)
		}
	}
	wantWhole(t, url)
}

// TestCheckTellsWhatIsWrong changes one thing at a time, which a problem names.
func TestCheckTellsWhatIsWrong(t *testing.T) {
	if testing.Short() {
		t.Skip("sequential: nothing for the race detector")
	}
	url := emptyDatabase(t)
	fillAll(t, open(t, url))
	d := newDamager(t, url)
	tests := map[string]struct{ table, change, want string }{
		"message":                {"messages", `record = '\xff'`, `message msg_`},
		"message without an end": {"ended", `id = gen_random_uuid()`, `it does not wait, and has not ended`},
		"an end":                 {"ended", `state = 1`, `it has ended as `},
		"an unknown end":         {"ended", `state = 100`, `state 100 is unknown`},
		"lane of a message":      {"live", `lane = 'other'`, `it waits in another lane than its own`},
		"key of a message":       {"live", `flow_key = 'other'`, `it waits under another flow-control key than its own`},
		"begin":                  {"live", `begun = NOT begun`, `its begun flag is`},
		"slot":                   {"live", `ended = true`, `it keeps its slot, and has not ended`},
		"state":                  {"live", `state = 100`, `state 100 is unknown`},
		"an end that waits":      {"live", `state = (SELECT state FROM posthaste.ended LIMIT 1)`, `it waits as FAILED`},
		"lease":                  {"live", `lease = 1, begun = true, node = 0`, `its lease 1 is of node 0`},
		"node":                   {"live", `lease = 1, begun = true, node = 12345`, `it is claimed by node 12345, which does not exist`},
		"lane":                   {"lanes", `live = live + 1`, `lane "`},
		"front of a lane":        {"lanes", `front = 9223372036854775807 WHERE lane IN (SELECT lane FROM posthaste.live WHERE NOT begun)`, `before its front at `},
		"claims of a lane":       {"lanes", `in_flight = in_flight + 1`, `and says `},
		"retries of a lane":      {"lanes", `retrying = retrying + 1`, `and says `},
		"queue":                  {"records", `value = '\xff' WHERE kind = 2`, `of kind 2 of user "ann"`},
		"kind of a record":       {"records", `kind = 100`, `records of this kind are not known`},
		"time of a record":       {"records", `due = 1`, `the time it is found by is 1`},
		"block":                  {"events", `block = '\xff'`, `the block at `},
		"event":                  {"events", `block = set_byte(block, 5, 1 - get_byte(block, 5) % 2)`, `event at `},
		"gaps":                   {"postings", `gaps = '\xff'`, `index of the log of user "ann": posting of term`},
		"posting":                {"postings", `gaps = gaps || '\x01'`, `its index does not agree with the events`},
		"answer":                 {"responses", `record = '\xff'`, `response of the event at`},
		"end of the log":         {"users", `position = 1 WHERE user_id = 'ann'`, `the log ends at 1`},
		"count of an hour":       {"counts", `n = n + 1`, ` events more than are counted`},
		"series of a count":      {"counts", `series = set_byte(series, 3, 120)`, `has fewer events of a series than are counted`},
		"state of a count":       {"counts", `what = 3`, `has fewer events of a series than are counted`},
		"events of a day":        {"kept", `entries = entries + 1 WHERE kind = 13`, `, and its count says `},
		"day without events":     {"kept", `day = 0 WHERE kind = 13`, `on 1970-01-01: it has no events, and its count says `},
		"number":                 {"kept", `entries = 7 WHERE kind = 7`, `number of kind 7 of user "ann": it says 7, and there are 2`},
		"dead letter":            {"records", `value = '\xff' WHERE kind = 14`, `of kind 14 of user "ann"`},
		"term":                   {"terms", `term = 1 WHERE kind = 14`, `its index does not agree with it`},
		"what a term finds":      {"terms", `at = 1`, `it finds something at 1, which is not there`},
		"run":                    {"records", `value = '\xff' WHERE kind = 7`, `of kind 7 of user "ann": record: parts are cut off`},
		"list of a run":          {"records", `key = substr(key, 1, 8) || '\x00000005' WHERE kind = 8`, `entry 0 of its list is not there`},
		"entry of a list":        {"records", `value = '\xff' WHERE kind = 8`, `of kind 8 of user "ann"`},
		"run of an entry":        {"records", `key = '\x000000000000000100000000' WHERE kind = 8`, `its run: store: not found`},
		"run of what it keeps":   {"records", `key = '\x0000000000000001' || substr(key, 9) WHERE kind = 9`, `its run: store: not found`},
		"run of an event":        {"records", `key = '\x0000000000000001' || substr(key, 9) WHERE kind = 10`, `its run: store: not found`},
		"run of a waiter":        {"records", `key = '\x0000000000000001' || substr(key, 9) WHERE kind = 11`, `its run: store: not found`},
		"waiter":                 {"records", `value = '\xff' WHERE kind = 11`, `of kind 11 of user "ann"`},
		"deadline":               {"records", `due = NULL WHERE kind = 11`, `the time it is found by is none, and should be`},
		"topic":                  {"records", `key = '\xff' || substr(key, 2) WHERE kind = 19`, `it is not found among the topics of waiters`},
		"failed run":             {"records", `value = '\xff' WHERE kind = 15`, `of kind 15 of user "ann"`},
		"run of a failed run":    {"records", `value = set_byte(value, 1, 1) WHERE kind = 15`, `its run: store: not found`},
		"id of a failed run":     {"records", `key = '\x00' || key WHERE kind = 20`, `it is not found among the ids of failed runs`},
		"partition":              {"users", `partitions = 64 WHERE user_id = 'ann'`, `it is not in its partition`},
		"latest run":             {"records", `value = '\x0000000000000001' WHERE kind = 18`, `the latest run with an id`},
	}
	for name, test := range tests {
		set, where, _ := strings.Cut(test.change, " WHERE ")
		if where != "" {
			where = ` AND ` + where
		}
		problems := d.with(test.table, `UPDATE posthaste.`+test.table+` SET `+set+` WHERE (tableoid, ctid) IN (
			SELECT tableoid, ctid FROM posthaste.`+test.table+` WHERE true`+where+` ORDER BY tableoid, ctid LIMIT 1)`)
		if !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, test.want) }) {
			t.Errorf("%s: problems %q, want one that has %q", name, problems, test.want)
		}
	}
	if problems := d.with("users", `INSERT INTO posthaste.users SELECT user_id, 1, 1 FROM posthaste.users`); !slices.ContainsFunc(problems, func(p string) bool {
		return strings.Contains(p, `there are two rows`)
	}) {
		t.Errorf("a user too many: problems %q", problems)
	}
	problems := d.with("terms", `INSERT INTO posthaste.terms SELECT user_id, kind, 1, at FROM posthaste.terms WHERE kind = 14 LIMIT 1`)
	if len(problems) != 1 || !strings.Contains(problems[0], `index of kind 14 of user "ann": it has `) {
		t.Errorf("a term too many: problems %q", problems)
	}
}

// What retention has begun to remove of a user's oldest day is not missed, and of any other
// day it is.
func TestCheckBesideRetention(t *testing.T) {
	url := emptyDatabase(t)
	fillAll(t, open(t, url))
	d := newDamager(t, url)
	bounds := map[string]string{"the oldest day": "<", "the next": ">="}
	for day, bound := range bounds {
		of := ` WHERE first ` + bound + ` (SELECT (day << 20) FROM posthaste.kept WHERE kind = 13 ORDER BY day DESC LIMIT 1)`
		for what, change := range map[string]string{
			"some postings": `DELETE FROM posthaste.postings p USING (
				SELECT term, first FROM posthaste.postings` + of + ` ORDER BY term, first LIMIT 3) AS gone
				WHERE p.term = gone.term AND p.first = gone.first`,
			"all postings": `DELETE FROM posthaste.postings` + of,
		} {
			problems := d.with("postings", change)
			if noticed := len(problems) > 0; noticed != (bound == ">=") {
				t.Errorf("%s without %s: problems %q", day, what, problems)
			}
		}
	}
	problems := d.with("postings", `DELETE FROM posthaste.postings p USING (
		SELECT term, first FROM posthaste.postings ORDER BY first, term DESC LIMIT 1) AS gone
		WHERE p.term = gone.term AND p.first = gone.first`)
	if len(problems) == 0 {
		t.Error("a posting of the oldest day that retention would not have removed yet is not missed")
	}
}

// damager changes a database below a store.
type damager struct {
	t    *testing.T
	url  string
	conn *pgx.Conn
}

func newDamager(t *testing.T, url string) damager {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	d := damager{t, url, conn}
	d.exec(`SET synchronous_commit = off`)
	return d
}

// tables are those that have rows for a check.
func (d damager) tables() []string {
	d.t.Helper()
	found, err := d.conn.Query(d.t.Context(), `
		SELECT relname::text FROM pg_class
		WHERE relnamespace = 'posthaste'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition AND relname <> 'schema'`)
	if err != nil {
		d.t.Fatal(err)
	}
	tables, err := pgx.CollectRows(found, pgx.RowTo[string])
	if err != nil || len(tables) < 13 {
		d.t.Fatalf("tables %q, %v", tables, err)
	}
	return tables
}

// with returns what a check finds after a change of a table, which is undone.
func (d damager) with(table, change string) []string {
	d.t.Helper()
	d.exec(`CREATE TEMPORARY TABLE saved AS TABLE posthaste.` + table)
	d.exec(change)
	report, err := postgres.Check(d.t.Context(), d.url)
	if err != nil {
		d.t.Errorf("%s: %v", change, err)
	}
	d.exec(`DELETE FROM posthaste.` + table + `; INSERT INTO posthaste.` + table + ` SELECT * FROM saved; DROP TABLE saved`)
	return report.Problems
}

func (d damager) exec(sql string) {
	d.t.Helper()
	if _, err := d.conn.Exec(d.t.Context(), sql); err != nil {
		d.t.Fatalf("%s: %v", sql, err)
	}
}

// A node that lives has claimed a message for longer than an attempt takes: nobody works on
// it. A node that died long ago is said to live.
func TestCheckTellsOfLeasesThatNobodyWorksOn(t *testing.T) {
	url := emptyDatabase(t)
	s := open(t, url)
	for name, c := range map[string]struct {
		timeout, claimed time.Duration
		lives            string
		want             string // none: ""
	}{
		"within the longest attempt":    {0, 23 * time.Hour, "10s", ""},
		"beyond the longest attempt":    {0, 25 * time.Hour, "10s", "longer than an attempt takes"},
		"within its own timeout":        {2 * time.Hour, time.Hour, "10s", ""},
		"beyond its own timeout":        {30 * time.Minute, time.Hour, "10s", "longer than an attempt takes"},
		"of a node that died":           {30 * time.Minute, time.Hour, "-1s", ""}, // due again when a node looks
		"of a node from another future": {0, time.Hour, "1 year", "node 12345: it counts as alive until"},
	} {
		m := newMessage(start)
		m.Timeout = c.timeout
		if err := acceptOne(t.Context(), s, m); err != nil {
			t.Fatal(err)
		}
		d := newDamager(t, url)
		d.exec(fmt.Sprintf(`BEGIN;
			INSERT INTO posthaste.nodes (node, known, lease, expires_at) VALUES (12345, 1, '10 s', clock_timestamp() + '%s');
			UPDATE posthaste.live SET node = 12345, lease = %d, begun = true WHERE id = '%s';
			UPDATE posthaste.lanes SET in_flight = 1 WHERE lane = (SELECT lane FROM posthaste.live WHERE id = '%[3]s');
			COMMIT`, c.lives, posthaste.FirstPosition(start.Add(-c.claimed)), uuid(m.ID)))
		report, err := postgres.Check(t.Context(), url)
		if err != nil || c.want == "" && len(report.Problems) > 0 ||
			c.want != "" && (len(report.Problems) != 1 || !strings.Contains(report.Problems[0], c.want)) {
			t.Errorf("%s: problems %q, %v; want %q", name, report.Problems, err, c.want)
		}
		d.exec(`UPDATE posthaste.live SET node = 0, lease = 0, begun = false WHERE node = 12345;
			UPDATE posthaste.lanes SET in_flight = 0; DELETE FROM posthaste.nodes WHERE node = 12345`)
	}
}

func uuid(id posthaste.MessageID) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
