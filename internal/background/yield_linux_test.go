package background

import "testing"

// TestWorkGivesWay asks the operating system for the priority of the work, and of who
// asked for it.
func TestWorkGivesWay(t *testing.T) {
	threads := Start(1)
	defer threads.Close()
	asker, err := priority()
	if err != nil {
		t.Fatal(err)
	}
	var work int
	threads.Do(func() { work, err = priority() })
	if err != nil {
		t.Fatal(err)
	}
	if want := min(asker+niceness, 19); work != want {
		t.Errorf("work has the niceness %d, want %d", work, want)
	}
	if again, err := priority(); err != nil || again != asker {
		t.Errorf("the niceness of who asks is now %d, %v, and was %d", again, err, asker)
	}
}
