package workflow

import (
	"bytes"
	"testing"

	"posthaste"
)

func TestListsStayWithinTheirBytes(t *testing.T) {
	var l lists
	for i := range 100 {
		l.keep(listID{"ann", posthaste.Position(i)}, list{1, make([]byte, 1<<20)})
	}
	kept := 0
	for _, known := range l.of {
		kept += len(known.body)
	}
	if kept != l.bytes || kept > keptOfLists || kept < keptOfLists-1<<20 {
		t.Errorf("%d bytes are kept and %d counted, want at most %d", kept, l.bytes, keptOfLists)
	}
}

func TestListsKeepTheLongestBeginning(t *testing.T) {
	var l lists
	of, long := listID{"ann", 1}, bytes.Repeat([]byte("x"), shortList+1)
	l.keep(of, list{5, long})
	l.keep(of, list{4, long})
	for entries, want := range map[int]int{3: 0, 4: 0, 5: 5, 6: 5} {
		if got := l.upTo(of, entries).entries; got != want {
			t.Errorf("of %d entries %d are known, want %d", entries, got, want)
		}
	}
	if got := l.upTo(listID{"bob", 1}, 9).entries; got != 0 {
		t.Errorf("another user's list has %d known entries", got)
	}
}
