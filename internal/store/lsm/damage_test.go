package lsm_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"posthaste"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/lsm"
)

// TestDamage damages every file of a store, one at a time: what was acknowledged is
// served as it was, or the store says that it is damaged. For a long run:
//
//	DAMAGE_SEEDS=500 go test -run TestDamage -timeout 1h ./internal/store/lsm
func TestDamage(t *testing.T) {
	if testing.Short() {
		t.Skip("sequential: nothing for the race detector")
	}
	seeds := damageSeeds(t)
	stopped, killed := vfs.NewCrashableMem(), vfs.NewCrashableMem()
	knowStopped, s := fillWithAll(t, stopped)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	knowKilled, s := fillWithAll(t, killed)
	defer func() { _ = s.Close() }()
	states := []struct {
		name  string
		image image
		know  acknowledged
	}{
		{"stopped", imageOf(t, stopped), knowStopped},
		{"killed", imageOf(t, killed.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})), knowKilled},
	}
	ways := []struct {
		name   string
		damage func(*rand.Rand, []byte) []byte
	}{
		{"a bit is flipped", flipBit},
		{"the end is cut off", cutOff},
		{"a block is zeroed", zeroBlock},
	}
	for _, state := range states {
		for _, way := range ways {
			t.Run(state.name+"/"+way.name, func(t *testing.T) {
				verdicts := map[string]int{}
				for name, content := range state.image {
					if len(content) == 0 {
						continue // its name is all there is
					}
					for seed := range seeds {
						random := rand.New(rand.NewPCG(uint64(seed), 0))
						verdict, err := try(state.image.with(name, way.damage(random, slices.Clone(content))), state.know)
						if err != nil {
							t.Errorf("%s of %d bytes, seed %d: %v", name, len(content), seed, err)
						}
						verdicts[kindOf(name)+" "+verdict]++
					}
				}
				t.Log(verdicts)
				checkVerdicts(t, verdicts)
			})
		}
	}
}

// checkVerdicts wants of each kind of file what may come of damage to it: what every start
// reads is refused, but for the end of a log that may be a write that was cut short; what
// is read later fails then; what the store can do without is served.
func checkVerdicts(t *testing.T, verdicts map[string]int) {
	t.Helper()
	may := []string{
		"MANIFEST refused", ".log refused", ".log served", // of the log's files some are left over
		".sst refused", ".sst failed", ".sst served", // some are left over
		"OPTIONS refused", "OPTIONS served", "guard served", "LOCK served",
	}
	for verdict := range verdicts {
		if !slices.Contains(may, verdict) {
			t.Errorf("damage that is %s", verdict)
		}
	}
	for _, kind := range []string{"MANIFEST", ".log", ".sst"} {
		if verdicts[kind+" "+refused]+verdicts[kind+" "+failed] == 0 {
			t.Errorf("no damage to %s was noticed", kind)
		}
	}
}

// TestMissingFile removes every file of a store, one at a time, and wants the same.
func TestMissingFile(t *testing.T) {
	fs := vfs.NewCrashableMem()
	know, s := fillWithAll(t, fs)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole := imageOf(t, fs)
	for name := range whole {
		rest := maps.Clone(whole)
		delete(rest, name)
		verdict, err := try(rest, know)
		if err != nil {
			t.Errorf("without %s: %v", name, err)
		}
		t.Logf("without %s: %s", name, verdict)
	}
}

func damageSeeds(t *testing.T) int {
	t.Helper()
	const variable = "DAMAGE_SEEDS"
	text := os.Getenv(variable)
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q, a number from 1 on is expected", variable, text)
	}
	return n
}

func flipBit(random *rand.Rand, data []byte) []byte {
	if len(data) > 0 {
		data[random.IntN(len(data))] ^= 1 << random.IntN(8)
	}
	return data
}

func cutOff(random *rand.Rand, data []byte) []byte {
	if len(data) == 0 {
		return data
	}
	return data[:random.IntN(len(data))]
}

func zeroBlock(random *rand.Rand, data []byte) []byte {
	const block = 512
	first := random.IntN(len(data)/block+1) * block
	clear(data[min(first, len(data)):min(first+block, len(data))])
	return data
}

// acknowledged is what was acknowledged.
type acknowledged struct {
	log       []store.Entry
	statuses  map[posthaste.MessageID]store.Status
	letters   []*posthaste.DeadLetter
	runs      []*posthaste.Run
	schedules []*posthaste.Schedule
	secret    string
}

// fillStore makes a store whose content is in tables and in its write-ahead log, and
// returns what it acknowledged.
func fillStore(t *testing.T, fs vfs.FS) (acknowledged, *ruled) {
	t.Helper()
	s, err := openRuled("data", lsm.Options{FS: fs, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		now := noon.Add(time.Duration(round) * time.Minute)
		for i := range 12 {
			m := message(t, fmt.Sprintf("http://h%d.example/%d", i%5, i), now)
			m.ID, _ = posthaste.NewMessageID(now, strings.NewReader(fmt.Sprintf("%03d-%03d-random", round, i)))
			m.Body = []byte(strings.Repeat(m.URL, 150))
			if _, err := s.Accept(t.Context(), now, []store.Submission{{Messages: []*posthaste.Message{m}}}); err != nil {
				t.Fatal(err)
			}
		}
		claims, _, err := s.Claim(t.Context(), now, 6)
		if err != nil {
			t.Fatal(err)
		}
		for _, claim := range claims {
			if _, err := ledger.New(s).Settle(t.Context(), now, store.Delivered(claim)); err != nil {
				t.Fatal(err)
			}
		}
		if round < 2 {
			if err := s.Compact(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := s.PutSecretIfAbsent(t.Context(), "key", "value"); err != nil { // no event: the end of the log does not show it
		t.Fatal(err)
	}
	know, err := readLedger(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return know, s
}

func readLedger(ctx context.Context, s *ruled) (acknowledged, error) {
	know := acknowledged{statuses: map[posthaste.MessageID]store.Status{}}
	query := store.EventQuery{High: posthaste.MaxPosition, OldestFirst: true, Limit: 1000}
	for {
		page, err := store.ReadEvents(ctx, s, "ann", query)
		if err != nil {
			return know, err
		}
		know.log = append(know.log, page.Entries...)
		if !page.More {
			break
		}
		query.Low = page.Next
	}
	for _, entry := range know.log {
		status, err := s.Message(ctx, "ann", entry.MessageID)
		if err != nil {
			return know, err
		}
		know.statuses[entry.MessageID] = status
	}
	letters, err := ledger.New(s).DeadLetters(ctx, "ann", store.DeadLetterQuery{High: posthaste.MaxPosition, Limit: 1000})
	if err != nil {
		return know, err
	}
	runs, err := ledger.New(s).Runs(ctx, "ann", store.RunQuery{High: posthaste.MaxPosition, Limit: 1000})
	if err != nil {
		return know, err
	}
	know.letters, know.runs = letters.DeadLetters, runs.Runs
	schedules, err := s.Schedules(ctx, "ann", "")
	if know.schedules = schedules.Items; err != nil {
		return know, err
	}
	know.secret, err = s.Secret(ctx, "key")
	return know, err
}

// Verdicts on a damaged store.
const (
	served  = "served"  // everything that was acknowledged
	refused = "refused" // to open
	failed  = "failed"  // a call, or the process
)

// try opens a store that may be damaged and compares it with the acknowledged. It
// returns an error when the store is silently wrong, or does not say what is damaged.
func try(files image, know acknowledged) (verdict string, err error) {
	type result struct {
		verdict string
		err     error
	}
	results := make(chan result, 1)
	report := func(verdict string, err error) {
		select {
		case results <- result{verdict, err}:
		default: // the first one counts
		}
	}
	stop := func(message string) {
		report(failed, named(errors.New(message)))
		runtime.Goexit() // as good as the end of the process
	}
	go func() {
		s, err := openRuled("data", lsm.Options{FS: files.fs(), CacheSize: 1 << 20, Fatal: stop, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			report(refused, named(err))
			return
		}
		found, err := readLedger(context.Background(), s)
		switch {
		case errors.Is(err, store.ErrNotFound):
			report(failed, fmt.Errorf("silently lost something: %w", err))
		case err != nil:
			report(failed, named(err))
		default:
			report(served, know.compare(found))
		}
		_ = s.Close()
	}()
	r := <-results
	return r.verdict, r.err
}

// named returns nil if an error names a file of the store.
func named(err error) error {
	for _, part := range []string{".sst", ".log", "MANIFEST-", "OPTIONS-", "marker.", "guard"} {
		if strings.Contains(err.Error(), part) {
			return nil
		}
	}
	return fmt.Errorf("no file is named in %q", err)
}

func (know acknowledged) compare(found acknowledged) error {
	if !reflect.DeepEqual(know.log, found.log) {
		return fmt.Errorf("silently wrong, the log (-want +got):\n%.2000s", cmp.Diff(know.log, found.log))
	}
	for id, want := range know.statuses {
		if got := found.statuses[id]; want.State != posthaste.StateActive && !reflect.DeepEqual(want, got) {
			return fmt.Errorf("silently wrong, message %s is %+v, want %+v", id, got, want)
		}
	}
	if diff := cmp.Diff([]any{know.letters, know.runs, know.schedules}, []any{found.letters, found.runs, found.schedules}); diff != "" {
		return fmt.Errorf("silently wrong, dead letters, runs or schedules (-want +got):\n%.2000s", diff)
	}
	if know.secret != found.secret {
		return fmt.Errorf("silently wrong, the secret is %q, want %q", found.secret, know.secret)
	}
	return nil
}

// image is the files of a store by name.
type image map[string][]byte

func imageOf(t *testing.T, fs vfs.FS) image {
	t.Helper()
	names, err := fs.List("data")
	if err != nil {
		t.Fatal(err)
	}
	files := image{}
	for _, name := range names {
		file, err := fs.Open(path.Join("data", name))
		if err != nil {
			t.Fatal(err)
		}
		if files[name], err = io.ReadAll(file); err != nil {
			t.Fatal(err)
		}
		_ = file.Close()
	}
	return files
}

// with returns the image with another content of one file.
func (files image) with(name string, data []byte) image {
	changed := maps.Clone(files)
	changed[name] = data
	return changed
}

// fs returns a file system that holds the image.
func (files image) fs() vfs.FS {
	fs := vfs.NewMem()
	_ = fs.MkdirAll("data", 0o700)
	for name, data := range files {
		file, err := fs.Create(path.Join("data", name), vfs.WriteCategoryUnspecified)
		if err != nil {
			panic(err)
		}
		_, _ = file.Write(slices.Clone(data))
		_ = file.Close()
	}
	return fs
}

// kindOf returns what a file of the name is for.
func kindOf(name string) string {
	if base, _, found := strings.Cut(name, "-"); found {
		return base
	}
	if ext := path.Ext(name); ext != "" {
		return ext
	}
	return name
}
