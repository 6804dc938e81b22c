// Against the values that every table of the distribution has.

#include "tools/compare/student_t.h"

#include <gtest/gtest.h>

namespace slipstream::compare {
namespace {

struct Row {
  size_t degrees;
  double t;
};

TEST(StudentTest, TheTableOf95Percent) {
  for (const Row& row :
       {Row{1, 12.7062}, Row{2, 4.3027}, Row{3, 3.1824}, Row{4, 2.7764}, Row{5, 2.5706}, Row{6, 2.4469}, Row{9, 2.2622},
        Row{10, 2.2281}, Row{30, 2.0423}, Row{120, 1.9799}, Row{100000, 1.9600}}) {
    EXPECT_NEAR(StudentQuantile(0.95, row.degrees), row.t, 0.00006) << row.degrees;
  }
}

TEST(StudentTest, OtherColumns) {
  for (const Row& row : {Row{1, 1.3764}, Row{2, 1.0607}, Row{5, 0.9195}, Row{10, 0.8791}, Row{30, 0.8538}}) {
    EXPECT_NEAR(StudentQuantile(0.60, row.degrees), row.t, 0.00006) << row.degrees;
  }
  EXPECT_NEAR(StudentQuantile(0.99, 1), 63.657, 0.0006);
  EXPECT_NEAR(StudentQuantile(0.99, 4), 4.6041, 0.00006);
}

TEST(StudentTest, TheEnds) {
  EXPECT_EQ(StudentWithin(0, 1), 0);
  EXPECT_EQ(StudentWithin(0, 2), 0);
  EXPECT_NEAR(StudentWithin(1e9, 7), 1, 1e-9);
  EXPECT_NEAR(StudentWithin(1, 1), 0.5, 1e-12);  // Cauchy's quartiles
}

}  // namespace
}  // namespace slipstream::compare
