package disk

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"
)

// FuzzGuard writes a guard and reads it back: as it was; or, with some byte changed, as it
// was or not at all.
func FuzzGuard(f *testing.F) {
	f.Add(uint64(0), uint64(1), int64(0), uint64(0), 0, byte(0))
	f.Add(uint64(1<<63), uint64(123456), int64(1<<40), uint64(0xabcdef), 30, byte(0x20))
	f.Fuzz(func(t *testing.T, commits, number uint64, size int64, hash uint64, at int, flip byte) {
		seal := manifestSeal{fmt.Sprintf("MANIFEST-%06d", number), size, hash}
		text := (&guard{commits: commits, manifests: []manifestSeal{seal, seal}}).encode()
		text[uint(at)%uint(len(text))] ^= flip
		var read guard
		err := read.decode(text)
		if err == nil && (read.commits != commits || !slices.Equal(read.manifests, []manifestSeal{seal, seal})) {
			t.Errorf("%q is read as %d commits and %v", text, read.commits, read.manifests)
		}
		if err != nil && flip == 0 {
			t.Errorf("%q is refused: %v", text, err)
		}
	})
}

// FuzzGuardText reads any text, with the hash that belongs to it.
func FuzzGuardText(f *testing.F) {
	f.Add([]byte("commits 7\nmanifest MANIFEST-000001 5 ff\n"))
	f.Add([]byte("manifest\n\nend\ncommits -1"))
	f.Fuzz(func(t *testing.T, lines []byte) {
		text := slices.Concat([]byte(guardHeading+"\n"), lines, []byte("\n"))
		text = fmt.Appendf(text, "end %x\n", xxhash.Sum64(text))
		var g guard
		if err := g.decode(text); err != nil {
			return // a line may end it, or be too long
		}
		if len(g.manifests) > len(lines) {
			t.Errorf("%q is read as %d manifests", text, len(g.manifests))
		}
	})
}
