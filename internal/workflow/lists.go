package workflow

import (
	"sync"

	"posthaste"
)

// lists keeps the encoded beginnings of long lists, so that a run's next step costs one entry instead of
// all. They stay right whatever happens, because lists are only appended to. Its zero value is empty.
type lists struct {
	mu    sync.Mutex
	of    map[listID]list
	bytes int
}

// listID identifies a run.
type listID struct {
	user string
	run  posthaste.Position
}

// list is an encoded beginning of a list, without the last bracket.
type list struct {
	entries int
	body    []byte
}

const (
	shortList   = 4 << 10  // bytes up to which a list is read again
	keptOfLists = 32 << 20 // bytes
)

// upTo returns what is known of a list, at most a number of entries.
func (l *lists) upTo(of listID, entries int) list {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.of[of]; known.entries <= entries {
		return known
	}
	return list{}
}

// keep keeps a beginning that nobody changes any more. Others make way for it, in no particular order.
func (l *lists) keep(of listID, known list) {
	if len(known.body) <= shortList || len(known.body) > keptOfLists/2 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of[of].entries >= known.entries {
		return
	}
	if l.of == nil {
		l.of = map[listID]list{}
	}
	l.drop(of)
	for other := range l.of {
		if l.bytes+len(known.body) <= keptOfLists {
			break
		}
		l.drop(other)
	}
	l.of[of] = known
	l.bytes += len(known.body)
}

func (l *lists) drop(of listID) {
	l.bytes -= len(l.of[of].body)
	delete(l.of, of)
}
