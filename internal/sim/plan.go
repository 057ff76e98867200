package sim

import (
	"fmt"
	"math/rand/v2"
)

// kind is what a step does.
type kind uint8

const (
	put kind = iota
	burst
	pull
	query
	wait
	retain
	hold
	behind
	powerCut
	kill
	stop
	failSync
	failWrite
	failDerived
	noSpace
	fullDisk
	slowDisk
	rot
)

// steps says how often each kind comes, and how it is called.
var steps = [...]struct {
	name   string
	weight int
}{
	put: {"put", 40}, burst: {"burst", 8}, pull: {"pull", 8}, query: {"query", 5}, wait: {"wait", 14}, retain: {"retain", 4}, hold: {"hold", 14},
	behind:   {"dispatch behind", 6},
	powerCut: {"power cut", 8}, kill: {"kill", 5}, stop: {"stop", 4}, failSync: {"fail sync", 2}, failWrite: {"fail write", 1},
	failDerived: {"fail sync of queues", 1}, noSpace: {"no space", 2}, fullDisk: {"full disk", 1}, slowDisk: {"slow disk", 1}, rot: {"rot", 2},
}

func (k kind) String() string { return steps[k].name }

// Step is one of a run. What exactly it does follows from its own seed and the state that it finds, so that a run from which other steps
// were taken out is a run as well.
type Step struct {
	kind kind
	seed uint64
}

func (s Step) String() string { return fmt.Sprintf("%v:%x", s.kind, s.seed) }

func (s Step) rng() *rand.Rand { return rand.New(rand.NewPCG(s.seed, uint64(s.kind))) }

// Plan makes n steps.
func Plan(seed uint64, n int) []Step {
	rng := rand.New(rand.NewPCG(seed, 0x5eed))
	total := 0
	for _, s := range steps {
		total += s.weight
	}
	plan := make([]Step, n)
	for i := range plan {
		at := rng.IntN(total)
		k := kind(0)
		for at >= steps[k].weight {
			at -= steps[k].weight
			k++
		}
		plan[i] = Step{k, rng.Uint64()}
	}
	if n > 0 && rng.IntN(4) == 0 {
		plan[0].kind = behind // of an empty log: what is flushed no mark can name
	}
	return plan
}
