package sim

// Shrink takes steps out of a plan that fails as long as it still does, trying at most so often. Every part of a plan is a plan.
func Shrink(plan []Step, tries int, fails func([]Step) bool) []Step {
	for size := (len(plan) + 1) / 2; size > 0; size /= 2 {
		for from := 0; from < len(plan); {
			if tries--; tries < 0 {
				return plan
			}
			less := append(append([]Step(nil), plan[:from]...), plan[min(from+size, len(plan)):]...)
			if fails(less) {
				plan = less
			} else {
				from += size
			}
		}
	}
	return plan
}
