package postings

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"posthaste"
	"posthaste/internal/store/index"
)

// writePostings stores an Ascending list under a prefix, in blocks of random size.
func writePostings(t *rapid.T, db *pebble.DB, prefix []byte, list []posthaste.Position) {
	for len(list) > 0 {
		n := rapid.IntRange(1, min(len(list), 40)).Draw(t, "block")
		gaps := []byte{}
		for i, p := range list[1:n] {
			gaps = binary.AppendUvarint(gaps, uint64(p-list[i]))
		}
		key := binary.BigEndian.AppendUint64(slices.Clone(prefix), uint64(list[0]))
		if err := db.Set(key, gaps, nil); err != nil {
			t.Fatal(err)
		}
		list = list[n:]
	}
}

// apartBy returns positions that are further apart than the numbers.
func apartBy(numbers []uint64, apart posthaste.Position) (list []posthaste.Position) {
	for _, n := range numbers {
		list = append(list, posthaste.Position(n)*apart)
	}
	return list
}

// drawSet returns some numbers up to 60, Ascending.
func drawSet(t *rapid.T) []uint64 {
	drawn := rapid.SliceOfDistinct(rapid.Uint64Range(1, 60), rapid.ID[uint64]).Draw(t, "set")
	slices.Sort(drawn)
	return drawn
}

// An intersection of unions agrees with set arithmetic, in both directions, however far
// positions are from one another: gaps take one to seven bytes.
func TestIntersection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		apart := rapid.SampledFrom([]posthaste.Position{1, 100, 30_000, 1 << 40}).Draw(t, "apart")
		db, err := pebble.Open("", &pebble.Options{FS: vfs.NewMem(), Logger: quiet{}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		var prefixes [][][]byte
		member := make([]bool, 64)
		for i := range member {
			member[i] = i > 0
		}
		for field := range rapid.IntRange(1, 3).Draw(t, "fields") {
			var alternatives [][]byte
			united := make([]bool, 64)
			for value := range rapid.IntRange(1, 3).Draw(t, "values") {
				prefix := []byte{byte(field), byte(value)}
				list := drawSet(t)
				writePostings(t, db, prefix, apartBy(list, apart))
				for _, p := range list {
					united[p] = true
				}
				alternatives = append(alternatives, prefix)
			}
			for p := range member {
				member[p] = member[p] && united[p]
			}
			prefixes = append(prefixes, alternatives)
		}
		var want []posthaste.Position
		for p, in := range member {
			if in {
				want = append(want, posthaste.Position(p)*apart)
			}
		}
		if got := walk(t, db, prefixes, Ascending, 0); !slices.Equal(got, want) {
			t.Fatalf("Ascending %v, want %v", got, want)
		}
		slices.Reverse(want)
		if got := walk(t, db, prefixes, Descending, 63*apart); !slices.Equal(got, want) {
			t.Fatalf("Descending %v, want %v", got, want)
		}
	})
}

// walk reads a whole intersection. Each call of seek has a budget that may end it
// early, to be continued where it stopped with a fresh one, as pages are.
func walk(t *rapid.T, db *pebble.DB, prefixes [][][]byte, dir Direction, from posthaste.Position) []posthaste.Position {
	in, err := Intersect(db, prefixes, dir, false, new(int))
	if err != nil {
		t.Fatal(err)
	}
	var found []posthaste.Position
	for p, ok := from, true; ok; {
		at, hit, end := in.seek(p, *in.seeks+1+rand.IntN(6))
		if end {
			break
		}
		if !hit {
			if at == p { // the budget was too small for any progress
				at, hit, end = in.seek(p, *in.seeks+1000)
			}
			if end {
				break
			}
			if !hit {
				p = at
				continue
			}
		}
		found = append(found, at)
		p, ok = dir.After(at)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	return found
}

type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(string, ...any) {}

// Two filters that match much and share nothing end with the budget, not with the
// data.
func TestIntersectionStopsAtItsBudget(t *testing.T) {
	db, err := pebble.Open("", &pebble.Options{FS: vfs.NewMem(), Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for p := range uint64(2000) {
		key := binary.BigEndian.AppendUint64([]byte{'x', byte(p % 2)}, p)
		if err := db.Set(key, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	in, err := Intersect(db, [][][]byte{{{'x', 0}}, {{'x', 1}}}, Ascending, false, new(int))
	if err != nil {
		t.Fatal(err)
	}
	at, found, end := in.seek(0, 100)
	if found || end || at == 0 || at > 200 {
		t.Errorf("seek with a budget of 100 = %d, %v, %v; want to stop within 200", at, found, end)
	}
	if at, found, end = in.seek(at, 100_000); found || !end {
		t.Errorf("seek to the end = %d, %v, %v; want none", at, found, end)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestIntersectionIsOpenOrNot lets each of the iterators that an intersection needs fail to
// open: those before it are closed, so what they hold is free.
func TestIntersectionIsOpenOrNot(t *testing.T) {
	const iterators = 4
	for n := range iterators {
		db, err := pebble.Open("", &pebble.Options{FS: vfs.NewMem(), Logger: quiet{}})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Set([]byte{'x'}, nil, nil); err != nil {
			t.Fatal(err)
		}
		prefixes := [][][]byte{{{'a'}, {'b'}}, {{'c'}, {'d'}}}
		if _, err := Intersect(&fewIterators{db, n}, prefixes, Ascending, false, new(int)); !errors.Is(err, errNoIterator) {
			t.Errorf("intersect, of which iterator %d fails, = %v, want its error", n, err)
		}
		if err := db.Close(); err != nil { // it tells what is held by those that are open
			t.Errorf("iterator %d fails: %v", n, err)
		}
	}
}

// fewIterators is a database that opens so many iterators.
type fewIterators struct {
	*pebble.DB
	left int
}

var errNoIterator = errors.New("there is no iterator left")

func (f *fewIterators) NewIter(options *pebble.IterOptions) (*pebble.Iterator, error) {
	if f.left == 0 {
		return nil, errNoIterator
	}
	f.left--
	return f.DB.NewIter(options)
}

// A damaged posting is an error, not the end of the list.
func TestADamagedPostingIsAnError(t *testing.T) {
	db, err := pebble.Open("", &pebble.Options{FS: vfs.NewMem(), Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := db.Set(binary.BigEndian.AppendUint64([]byte{'x'}, 7), []byte{1, 0xff}, nil); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []Direction{Ascending, Descending} {
		in, err := Intersect(db, [][][]byte{{{'x'}}}, dir, false, new(int))
		if err != nil {
			t.Fatal(err)
		}
		in.seek(9, 100)
		if err := in.Close(); !errors.Is(err, index.ErrDamaged) {
			t.Errorf("Ascending %t: %v, want ErrDamaged", dir, err)
		}
	}
}
