package postgres_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"posthaste"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/partition"
	"posthaste/internal/store/postgres"
)

// several joins the nodes of some empty databases that divide the partitions of users.
func several(t *testing.T, databases int, options postgres.Options) (*ledger.Ledger, *postgres.Databases) {
	t.Helper()
	urls := emptyDatabases(t, databases)
	t.Cleanup(func() { wantWhole(t, urls...) })
	return openSeveral(t, urls, options)
}

func emptyDatabases(t *testing.T, databases int) (urls []string) {
	t.Helper()
	for range databases {
		urls = append(urls, emptyDatabase(t))
	}
	return urls
}

func openSeveral(t *testing.T, urls []string, options postgres.Options) (*ledger.Ledger, *postgres.Databases) {
	t.Helper()
	options.Logger = slog.New(slog.DiscardHandler)
	s, err := postgres.OpenDatabases(t.Context(), urls, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return ledger.New(partition.New(s)), s.(*postgres.Databases)
}

// Databases are used together as they were at first.
func TestOtherDatabasesThanBefore(t *testing.T) {
	urls := emptyDatabases(t, 3)
	alone := emptyDatabase(t)
	s := open(t, alone)
	accept(t, s, start)
	if err := s.Store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.OpenDatabases(t.Context(), append(urls[:2:2], alone), postgres.Options{Logger: slog.New(slog.DiscardHandler)}); err == nil || !strings.Contains(err.Error(), "has been used alone") {
		t.Errorf("with one that was used alone: %v", err)
	}
	urls = emptyDatabases(t, 3)
	l, together := openSeveral(t, urls[:2], postgres.Options{Partitions: 4})
	if _, err := l.Accept(t.Context(), start, batchOfAll()); err != nil {
		t.Fatal(err)
	}
	if err := together.Close(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		urls       []string
		partitions store.Partitions
		want       string
	}{
		"one alone":          {urls[1:2], 0, "it is database 2 of 2: give all of them"},
		"in another order":   {[]string{urls[1], urls[0]}, 0, "database 1 of 2 was the one with number 2"},
		"with an empty one":  {[]string{urls[0], urls[2]}, 0, "database 2 of 2 is new"},
		"with one more":      {urls, 0, "database 1 of 3 was one of 2"},
		"fewer partitions":   {urls[:2], 2, "users have 4 partitions, not 2"},
		"more partitions":    {urls[:2], 8, "users have 4 partitions, not 8"},
		"as they were":       {urls[:2], 4, ""},
		"whatever partition": {urls[:2], 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := postgres.OpenDatabases(t.Context(), c.urls, postgres.Options{Partitions: c.partitions, Logger: slog.New(slog.DiscardHandler)})
			if err == nil {
				err = s.Close()
				if c.want != "" {
					t.Fatalf("they open, want %q", c.want)
				}
			}
			if err != nil && (c.want == "" || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("Open = %v, want %q", err, c.want)
			}
		})
	}
}

// A connection is lost in the middle of a change in two databases: it takes place in both or in none, whoever has
// to find out.
func TestAConnectionThatIsLostInAChangeOfTwoDatabases(t *testing.T) {
	for name, c := range map[string]struct {
		database int
		command  string
		moment   int32
		told     bool // that it took place
		took     bool
	}{
		"before one is prepared":   {1, "PREPARE TRANSACTION", beforeCommit, false, false},
		"when one is prepared":     {1, "PREPARE TRANSACTION", afterCommit, false, false},
		"before the other decides": {0, "COMMIT", beforeCommit, false, false},
		"when it has decided":      {0, "COMMIT", afterCommit, false, true},
		"before one is committed":  {1, "COMMIT PREPARED", beforeCommit, true, true},
		"when both are":            {1, "COMMIT PREPARED", afterCommit, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			direct := emptyDatabases(t, 2)
			t.Cleanup(func() { wantWhole(t, direct...) })
			urls := make([]string, len(direct))
			cutters := make([]*cutter, len(direct))
			for i := range direct {
				cutters[i], urls[i] = newCutter(t, direct[i])
			}
			l, _ := openSeveral(t, urls, postgres.Options{Partitions: 4})
			if _, err := l.Accept(t.Context(), start, batchOfAll()); err != nil { // the user has rows
				t.Fatal(err)
			}
			cut := cutters[c.database]
			cut.command = c.command
			cut.armed.Store(c.moment)
			batch := batchOfAll()
			_, err := l.Accept(t.Context(), start, batch)
			if told := err == nil; told != c.told || !told && !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("the change that was cut returns %v, want ErrUnavailable: %t", err, !c.told)
			}
			waitUntilResolved(t, direct)
			for _, s := range batch {
				id := s.Messages[0].ID
				if _, err := l.Message(t.Context(), ann, id); (err == nil) != c.took || err != nil && !errors.Is(err, store.ErrNotFound) {
					t.Errorf("message in slot %d: %v, want that it is there: %t", id.Slot(), err, c.took)
				}
			}
		})
	}
}

// batchOfAll is a batch with a message in each slot.
func batchOfAll() (batch []store.Submission) {
	for slot := range posthaste.Slots {
		m := newMessage(start)
		m.ID[15] = m.ID[15]/posthaste.Slots*posthaste.Slots + byte(slot)
		batch = append(batch, store.Submission{Messages: []*posthaste.Message{m}})
	}
	return batch
}

// waitUntilResolved waits until nothing is prepared in some databases.
func waitUntilResolved(t *testing.T, urls []string) {
	t.Helper()
	for _, url := range urls {
		db := connect(t, url)
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			var left int
			err := db.QueryRow(t.Context(), `SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()`).Scan(&left)
			if err == nil && left == 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d transactions are still prepared, %v", left, err)
			}
		}
	}
}

// While one database is away, what is in others goes on.
func TestOneDatabaseIsAway(t *testing.T) {
	direct := emptyDatabases(t, 2)
	t.Cleanup(func() { wantWhole(t, direct...) })
	cutter, url := newCutter(t, direct[1])
	l, s := openSeveral(t, []string{direct[0], url}, postgres.Options{Partitions: 16}.WithPatience(claimPatience))
	for _, submission := range batchOfAll() {
		if _, err := l.Accept(t.Context(), start, []store.Submission{submission}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Room(); err != nil {
		t.Errorf("Room = %v while both are there", err)
	}
	cutter.stop(true)
	await(t, "it is noticed", func() bool { return s.Room() != nil })
	if err := s.Room(); !strings.Contains(err.Error(), "database 2 of 2 is away") {
		t.Errorf("Room = %v, want which one is away", err)
	}
	if err := l.Ping(t.Context()); err != nil {
		t.Errorf("Ping = %v: the other one is there", err)
	}
	there, away := 0, 0
	for _, submission := range batchOfAll() {
		_, err := l.Accept(t.Context(), start, []store.Submission{submission})
		_, named := errors.AsType[store.PartAway](err)
		switch {
		case err == nil:
			there++
		case named && errors.Is(err, store.ErrUnavailable):
			away++
		default:
			t.Fatal(err)
		}
	}
	if there < posthaste.Slots/2 || there+away != posthaste.Slots {
		t.Errorf("%d messages were accepted and %d refused, want half of them each", there, away)
	}
	for slot := range posthaste.Slot(posthaste.Slots) {
		m := batchOfAll()[0].Messages[0]
		m.ID[15] = m.ID[15]/posthaste.Slots*posthaste.Slots + byte(s.OwnSlot(ann, slot))
		if _, err := l.Accept(t.Context(), start, []store.Submission{{Messages: []*posthaste.Message{m}}}); err != nil {
			t.Fatalf("a message that may lie anywhere is put into slot %d: %v", m.ID.Slot(), err)
		}
	}
	const more = 100 * posthaste.Slots
	claims, _, err := l.Claim(t.Context(), start, more)
	if err != nil || len(claims) != 2*there+posthaste.Slots {
		t.Errorf("%d claims, %v, want the %d of the database that is there", len(claims), err, 2*there+posthaste.Slots)
	}
	if _, err := store.ReadEvents(t.Context(), l, ann, store.EventQuery{High: posthaste.MaxPosition, Limit: 1}); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("the log of the user, which is in both, is read: %v", err)
	}
	cutter.stop(false)
	await(t, "it is back", func() bool { return s.Room() == nil })
	await(t, "the other messages are claimed", func() bool {
		some, _, err := l.Claim(t.Context(), start, more)
		claims = append(claims, some...)
		return err == nil && len(claims) == posthaste.Slots+there+posthaste.Slots
	})
}

// A node starts while one database is away, and joins that when it is back. The first one, with the signing keys, must
// be there.
func TestANodeStartsWhileOneDatabaseIsAway(t *testing.T) {
	direct := emptyDatabases(t, 2)
	t.Cleanup(func() { wantWhole(t, direct...) })
	var cutters [2]*cutter
	urls := make([]string, 2)
	for i := range urls {
		cutters[i], urls[i] = newCutter(t, direct[i])
	}
	options := postgres.Options{Logger: slog.New(slog.DiscardHandler)}
	cutters[1].stop(true)
	if _, err := postgres.OpenDatabases(t.Context(), urls, options); err == nil || !strings.Contains(err.Error(), "all must be there at first") {
		t.Errorf("Open = %v of new databases, one of which is away", err)
	}
	cutters[1].stop(false)
	_, before := openSeveral(t, urls, options)
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	cutters[0].stop(true)
	if _, err := postgres.OpenDatabases(t.Context(), urls, options); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Open = %v while the first one is away", err)
	}
	cutters[0].stop(false)
	cutters[1].stop(true)
	l, s := openSeveral(t, urls, options)
	if err := s.Room(); err == nil || !strings.Contains(err.Error(), "database 2 of 2 is away") {
		t.Errorf("Room = %v, want which one is away", err)
	}
	acceptAll := func() (accepted int) {
		for _, submission := range batchOfAll() {
			if _, err := l.Accept(t.Context(), start, []store.Submission{submission}); err == nil {
				accepted++
			} else if !errors.Is(err, store.ErrUnavailable) {
				t.Fatal(err)
			}
		}
		return accepted
	}
	if accepted := acceptAll(); accepted != posthaste.Slots/2 {
		t.Errorf("%d messages were accepted, want half of %d", accepted, posthaste.Slots)
	}
	cutters[1].stop(false)
	await(t, "other one", func() bool { return s.Room() == nil })
	if accepted := acceptAll(); accepted != posthaste.Slots {
		t.Errorf("%d messages were accepted, want all of %d", accepted, posthaste.Slots)
	}
}

// A database that does not answer keeps no claims of the other one waiting for long.
func TestOneDatabaseHangs(t *testing.T) {
	direct := emptyDatabases(t, 2)
	t.Cleanup(func() { wantWhole(t, direct...) })
	cutter, url := newCutter(t, direct[1])
	l, s := openSeveral(t, []string{direct[0], url}, postgres.Options{Partitions: 16})
	if _, err := l.Accept(t.Context(), start, batchOfAll()); err != nil {
		t.Fatal(err)
	}
	cutter.hangs.Lock()
	answer := sync.OnceFunc(cutter.hangs.Unlock)
	t.Cleanup(answer)
	var claims []store.Claim
	claim := func() bool {
		some, _, err := l.Claim(t.Context(), start, 100*posthaste.Slots)
		claims = append(claims, some...)
		return err == nil && len(some) > 0
	}
	await(t, "claims of the database that answers", func() bool { return claim() && len(claims) >= posthaste.Slots/2 })
	if len(claims) > posthaste.Slots/2 {
		t.Errorf("%d claims, want the %d of one database", len(claims), posthaste.Slots/2)
	}
	answer()
	await(t, "claim of the other one", func() bool { return claim() && len(claims) == posthaste.Slots })
	await(t, "end of the outage, if it was taken for one", func() bool { return s.Room() == nil })
}

// What may lie anywhere is put where the node that accepts it serves it.
func TestOwnSlotsOfNodesOfTwoDatabases(t *testing.T) {
	urls := emptyDatabases(t, 2)
	_, a := openSeveral(t, urls, postgres.Options{Partitions: 16})
	_, b := openSeveral(t, urls, postgres.Options{Partitions: 16})
	a.RenewShares()
	var own [2]map[posthaste.Slot]bool // the first of their partitions
	for i, s := range []*postgres.Databases{a, b} {
		own[i] = map[posthaste.Slot]bool{}
		for slot := range posthaste.Slot(posthaste.Slots) {
			own[i][s.OwnSlot(ann, slot)/4] = true
		}
	}
	for partition := range posthaste.Slot(16) {
		if own[0][partition] == own[1][partition] {
			t.Errorf("partition %d is used by the first node: %t, by the second: %t", partition, own[0][partition], own[1][partition])
		}
	}
}

// Two databases together claim no more at acceptance than there are slots free.
func TestSlotsThatTwoDatabasesShare(t *testing.T) {
	l, s := several(t, 2, postgres.Options{ClaimAccepted: true})
	if _, _, err := l.Claim(t.Context(), start, 100); err != nil {
		t.Fatal(err)
	}
	if free := s.Free(); free[0]+free[1] > 100 || min(free[0], free[1]) == 0 {
		t.Errorf("they may claim %d of 100 at acceptance", free)
	}
}

// An outcome is forgotten when nobody will ask for it.
func TestForgetOutcomes(t *testing.T) {
	urls, asked := emptyDatabases(t, 2), rand.Text()
	prepared := "'posthaste_1_9_" + asked + "'" // of a database that nobody knows
	_, s := openSeveral(t, urls, postgres.Options{})
	decides, other := connect(t, urls[0]), connect(t, urls[1])
	_, err := other.Exec(t.Context(), `
		BEGIN; INSERT INTO posthaste.outcomes (id, committed) VALUES ('any', true); PREPARE TRANSACTION `+prepared,
		pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := other.Exec(context.Background(), `ROLLBACK PREPARED `+prepared); err != nil {
			t.Error(err)
		}
	})
	_, err = decides.Exec(t.Context(), `
		INSERT INTO posthaste.outcomes (id, committed, decided) VALUES
			($1, true, clock_timestamp() - '2 hours'::interval), ('OLD', true, clock_timestamp() - '2 hours'::interval), ('NEW', true, clock_timestamp())`, asked)
	if err != nil {
		t.Fatal(err)
	}
	s.ForgetOutcomes()
	var left []string
	if err := decides.QueryRow(t.Context(), `SELECT array_agg(id ORDER BY id COLLATE "C") FROM posthaste.outcomes`).Scan(&left); err != nil {
		t.Fatal(err)
	}
	if want := slices.Sorted(slices.Values([]string{asked, "NEW"})); !slices.Equal(left, want) {
		t.Errorf("%q are left, want what may be asked for", left)
	}
}
