// Student's t distribution, for intervals of few measurements.
//
// Threading: pure functions.
#pragma once

#include <cstddef>

namespace slipstream::compare {

// The probability that |T| is at most `t`, for `degrees` (1 or more) degrees of freedom and t >= 0: the finite sums of
// Abramowitz and Stegun, 26.7.3 and 26.7.4, which are exact for whole numbers of degrees.
double StudentWithin(double t, size_t degrees);

// The t that StudentWithin() gives `probability` for; 0 < probability < 1.
double StudentQuantile(double probability, size_t degrees);

}  // namespace slipstream::compare
