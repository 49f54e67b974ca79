package facts

import (
	"errors"
	"testing"
)

func one(int) int64 { return 1 }

// TestLearn: a fact is fetched once while there is room for it, and again after that.
func TestLearn(t *testing.T) {
	c := New[string](2)
	asked := 0
	learn := func(key string) int {
		return Learn(c, nil, key, one, func() (int, error) { asked++; return len(key), nil })
	}
	for _, key := range []string{"a", "bb", "a", "bb"} {
		if learn(key) != len(key) {
			t.Errorf("%s is %d", key, learn(key))
		}
	}
	if asked != 2 {
		t.Errorf("asked %d times for two facts", asked)
	}
	learn("ccc") // a is forgotten
	if learn("bb"); asked != 3 {
		t.Errorf("what there is room for was forgotten: asked %d times", asked)
	}
	if learn("a"); asked != 4 {
		t.Errorf("there is no bound: asked %d times", asked)
	}
	c.Keep("dddd", 7, 100)
	if got := learn("dddd"); got != 7 || asked != 4 {
		t.Errorf("%d, asked %d times: the newest fact stays, however large", got, asked)
	}
	if c.Keep("dddd", 8, 1); c.weight != 1 {
		t.Errorf("it weighs %d after a fact was replaced", c.weight)
	}
}

// TestFailure: it is a panic below, an error above, and not kept. Other panics go on.
func TestFailure(t *testing.T) {
	c, down, failing := New[int](10), errors.New("down"), true
	read := func() (v int, err error) {
		defer Catch(&err)
		return Learn(c, nil, 1, one, func() (int, error) {
			if failing {
				return 0, down
			}
			return 5, nil
		}), nil
	}
	_, err := read()
	var failed *UpstreamError
	if !errors.As(err, &failed) || !errors.Is(err, down) || err.Error() != "the fork's upstream failed: down" {
		t.Errorf("%v", err)
	}
	failing = false
	if v, err := read(); v != 5 || err != nil {
		t.Errorf("%d, %v", v, err)
	}
	for name, do := range map[string]func(){
		"Catch":   func() { var err error; defer Catch(&err); panic("a bug") },
		"Attempt": func() { _, _ = NewRehearsal[int]().Attempt(func() { panic("a bug") }) },
	} {
		func() {
			defer func() {
				if recover() != "a bug" {
					t.Errorf("%s swallows a panic", name)
				}
			}()
			do()
		}()
	}
}

// TestRehearsal: it is told one fact after another, outside of what it does, and keeps them where the cache does not.
func TestRehearsal(t *testing.T) {
	c, r := New[int](1), NewRehearsal[int]()
	inside, sum, attempts := false, 0, 0
	work := func() {
		inside = true
		defer func() { inside = false }()
		sum = 0
		for key := range 4 {
			sum += Learn(c, r, key, one, func() (int, error) {
				if inside {
					t.Error("it is fetched while the rehearsal goes on")
				}
				return key, nil
			})
		}
	}
	for done := false; !done && attempts < 10; attempts++ {
		var err error
		if done, err = r.Attempt(work); err != nil {
			t.Fatal(err)
		}
	}
	if sum != 6 || attempts != 5 {
		t.Errorf("%d after %d attempts", sum, attempts)
	}
	down := errors.New("down")
	done, err := NewRehearsal[int]().Attempt(func() {
		Learn(c, NewRehearsal[int](), 9, one, func() (int, error) { return 0, down })
	})
	if done || !errors.Is(err, down) {
		t.Errorf("%v, %v", done, err)
	}
	another := NewRehearsal[int]()
	done, err = another.Attempt(func() { Learn(c, another, 3, one, func() (int, error) { return 0, down }) })
	if !done || err != nil {
		t.Errorf("what the cache has is asked for: %v, %v", done, err)
	}
}
