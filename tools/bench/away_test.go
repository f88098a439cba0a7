package main

import (
	"io"
	"net"
	"net/url"
	"testing"
	"time"
)

// What goes through the proxy arrives unchanged, and no sooner than after the delay.
func TestAway(t *testing.T) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c) }()
		}
	}()
	const roundTrip = 20 * time.Millisecond
	away, err := goAway(t.Context(), "postgres://user@"+echo.Addr().String()+"/name", roundTrip)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(away)
	if err != nil || u.Path != "/name" || u.User.Username() != "user" {
		t.Fatalf("the proxy is at %s, %v", away, err)
	}
	c, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, word := range []string{"some", "more"} {
		began, got := time.Now(), make([]byte, len(word))
		if _, err := io.WriteString(c, word); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, got); err != nil || string(got) != word {
			t.Fatalf("%q came back as %q, %v", word, got, err)
		}
		if took := time.Since(began); took < roundTrip {
			t.Errorf("it took %v there and back, want at least %v", took, roundTrip)
		}
	}
}
