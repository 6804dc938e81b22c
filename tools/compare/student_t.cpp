#include "tools/compare/student_t.h"

#include <cmath>
#include <numbers>

namespace slipstream::compare {

double StudentWithin(double t, size_t degrees) {
  const double theta = std::atan(t / std::sqrt(static_cast<double>(degrees)));
  const double cosine = std::cos(theta);
  const bool odd = degrees % 2 == 1;
  // Odd: cos + 2/3 cos^3 + 2*4/(3*5) cos^5 + ... up to cos^(degrees-2); even: 1 + 1/2 cos^2 + 1*3/(2*4) cos^4 + ...
  double term = odd ? cosine : 1;
  double sum = degrees == 1 ? 0 : term;
  for (size_t power = odd ? 3 : 2; power + 2 <= degrees; power += 2) {
    const auto k = static_cast<double>(power);
    term *= (k - 1) / k * cosine * cosine;
    sum += term;
    if (term < sum * 1e-17) break;
  }
  const double sine = std::sin(theta);
  return odd ? 2 / std::numbers::pi * (theta + sine * sum) : sine * sum;
}

double StudentQuantile(double probability, size_t degrees) {
  double low = 0;
  double high = 1;
  while (StudentWithin(high, degrees) < probability && high < 1e12) high *= 2;
  while (high - low > 1e-13 * high) {
    const double middle = (low + high) / 2;
    (StudentWithin(middle, degrees) < probability ? low : high) = middle;
  }
  return high;
}

}  // namespace slipstream::compare
